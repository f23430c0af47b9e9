#include "tools/config/suggest.h"

#include <algorithm>
#include <limits>

#include "core/error.h"
#include "tools/config/json_locate.h"

namespace mixtape::config {
namespace {

constexpr size_t kLongestName = 64;  // no key is near a longer one
constexpr size_t kMostSuggestions = 3;

std::string folded(std::string_view word) {
  std::string out(word);
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    if (c == '-' || c == ' ') c = '_';
  }
  return out;
}

/// Without separators, so that batchSize, batch-size and batchsize are one name.
std::string squeezed(std::string_view word) {
  std::string out = folded(word);
  out.erase(std::remove(out.begin(), out.end(), '_'), out.end());
  return out;
}

int limit_for(std::string_view word) { return word.size() <= 3 ? 1 : 2; }

bool same_name(std::string_view key, std::string_view name, const std::vector<std::string_view>& synonyms) {
  const std::string wanted = squeezed(key);
  return wanted == squeezed(name) || std::any_of(synonyms.begin(), synonyms.end(),
                                                 [&](std::string_view other) { return wanted == squeezed(other); });
}

/// Something that a key may have meant: a field or a section.
struct Candidate {
  std::string path;
  std::string hint;
  bool here;  ///< in the section where the key stands
  int rank;   ///< only those of the lowest rank are shown
};

/// 0: here, by a synonym or one edit away; 1: its very name or a synonym elsewhere; 2: two edits away here; 3 and 4:
/// one and two edits away elsewhere.
int rank_of(bool here, bool same, int distance) {
  if (here && (same || distance <= 1)) return 0;
  if (same) return 1;
  return here ? 2 : 2 + distance;
}

std::vector<Candidate> candidates_for(std::string_view section, std::string_view key) {
  std::vector<Candidate> out;
  const std::string name = folded(key);
  const auto consider = [&](std::string path, std::string_view own_section, std::string_view own_name, std::string hint,
                            const std::vector<std::string_view>& synonyms) {
    const bool here = own_section == section, same = same_name(key, own_name, synonyms);
    const int distance = edit_distance(name, own_name, limit_for(name));
    if (!same && distance > limit_for(name)) return;
    out.push_back({std::move(path), std::move(hint), here, rank_of(here, same, distance)});
  };
  for (const Field& field : fields()) consider(field.path(), field.section, field.name, field.hint(), field.synonyms);
  for (const Section& other : sections()) {
    consider(std::string(other.path), section_of(other.path), name_of(other.path), "a section", other.synonyms);
  }
  return out;
}

}  // namespace

int edit_distance(std::string_view a, std::string_view b, int limit) {
  if (a.size() > b.size()) std::swap(a, b);
  if (b.size() - a.size() > static_cast<size_t>(limit)) return limit + 1;
  std::vector<int> row(a.size() + 1);
  for (size_t i = 0; i <= a.size(); ++i) row[i] = static_cast<int>(i);
  for (size_t j = 1; j <= b.size(); ++j) {
    int diagonal = row[0];
    row[0] = static_cast<int>(j);
    int smallest = row[0];
    for (size_t i = 1; i <= a.size(); ++i) {
      const int replaced = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
      diagonal = row[i];
      row[i] = std::min({replaced, row[i] + 1, row[i - 1] + 1});
      smallest = std::min(smallest, row[i]);
    }
    if (smallest > limit) return limit + 1;
  }
  return std::min(row[a.size()], limit + 1);
}

std::vector<std::string> nearest(std::string_view word, const std::vector<std::string>& candidates) {
  std::vector<std::string> out;
  if (word.size() > kLongestName) return out;
  const std::string wanted = folded(word);
  int best = limit_for(wanted);
  for (const std::string& candidate : candidates) {
    const int distance = edit_distance(wanted, folded(candidate), best);
    if (distance > best) continue;
    if (distance < best) out.clear();
    best = distance;
    out.push_back(candidate);
  }
  return out;
}

Suggestion suggest_key(std::string_view section, std::string_view key, bool whole_paths) {
  Suggestion out;
  if (key.size() > kLongestName) return out;
  for (const Elsewhere& other : elsewhere()) {
    if (same_name(key, other.names.front(), other.names)) return {std::string(other.remedy), {}};
  }
  std::vector<Candidate> found = candidates_for(section, key);
  int best = std::numeric_limits<int>::max();
  for (const Candidate& candidate : found) best = std::min(best, candidate.rank);
  std::erase_if(found, [&](const Candidate& candidate) { return candidate.rank > best; });
  if (found.size() > kMostSuggestions) found.resize(kMostSuggestions);
  std::vector<std::string> words;
  for (const Candidate& c : found) {
    words.push_back(
        message(quote_json(c.here && !whole_paths ? name_of(c.path) : std::string_view(c.path)), " (", c.hint, ")"));
    out.paths.push_back(c.path);
  }
  if (!words.empty()) out.text = message("did you mean ", list_words(words), "?");
  return out;
}

std::string suggest_choice(const std::vector<Choice>& choices, std::string_view word) {
  std::vector<std::string> words;
  for (const Choice& choice : choices) {
    if (same_name(word, choice.value, choice.synonyms)) return message(" did you mean ", quote_json(choice.value), "?");
    words.emplace_back(choice.value);
  }
  std::vector<std::string> near = nearest(word, words);
  for (std::string& found : near) found = quote_json(found);
  return near.empty() ? "" : message(" did you mean ", list_words(near), "?");
}

}  // namespace mixtape::config
