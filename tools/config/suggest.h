// "Did you mean": near names, synonyms, and keys that stand in the wrong section.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tools/config/fields.h"

namespace mixtape::config {

/// Levenshtein distance, or `limit + 1` as soon as it is larger than `limit`.
int edit_distance(std::string_view a, std::string_view b, int limit);

/// The words of `candidates` that are nearest to `word`: at most two edits, one for words of up to three letters;
/// nothing farther, and only the nearest. Upper case and dashes count as equal to lower case and underscores.
std::vector<std::string> nearest(std::string_view word, const std::vector<std::string>& candidates);

/// What an unknown key may have meant.
struct Suggestion {
  std::string text;  ///< `did you mean "warmup_steps" (integer)?`, or where the thing is given; "" if nothing is near
  std::vector<std::string> paths;  ///< the fields that it names
};
/// `whole_paths` names keys of the same section by their dotted path too.
Suggestion suggest_key(std::string_view section, std::string_view key, bool whole_paths);

/// ` did you mean "fp16"?`, with a space in front, or "" when no word of the list is near.
std::string suggest_choice(const std::vector<Choice>& choices, std::string_view word);

}  // namespace mixtape::config
