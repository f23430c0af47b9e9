// The field table: everything that is known about every configuration key. The parser, its errors, `config show`, the
// effective config.json, the recover check and docs/reference/config.md are all made from it.
#pragma once

#include <limits>
#include <map>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "tools/config/config.h"

namespace mixtape::config {

enum class Type {
  boolean,
  integer,
  number,
  choice,  ///< one of a few words
  path,    ///< made absolute, from the directory of the file
  policy,  ///< one of a few words, or the path of a .json file
  scale,   ///< a number, or "dynamic"
  rules    ///< an object: op name -> one of a few words
};

/// A word that a field takes.
struct Choice {
  std::string_view value;
  std::vector<std::string_view> synonyms = {};  ///< what people write who mean it
  std::string_view not_built = {};              ///< why it is refused for now; empty: it works
};

struct Range {
  double low = -std::numeric_limits<double>::infinity();
  double high = std::numeric_limits<double>::infinity();
  bool above_low = false;   ///< low itself is out
  bool below_high = false;  ///< high itself is out
  std::string_view why = {};

  bool holds(double value) const;
  /// ">= 0", "> 0", "between 0 and 1", ">= 0 and < 1"; "" without a bound.
  std::string text() const;
};

/// An enum member of Config as the index into `Field::choices`.
struct ChoiceSlot {
  int (*get)(const Config&);
  void (*set)(Config&, int);
};

/// The member of Config that a field fills; monostate for a key whose function is not built yet.
using Slot = std::variant<std::monostate, bool& (*)(Config&), int64_t& (*)(Config&), double& (*)(Config&),
                          std::string& (*)(Config&), std::map<std::string, std::string>& (*)(Config&), ChoiceSlot>;

struct Field {
  std::string_view section = {};  ///< "model.config"; "" for the top level
  std::string_view name;          ///< "hidden_size"
  Type type;
  Slot slot = {};
  Range range = {};
  std::vector<Choice> choices = {};
  bool nullable = false;  ///< null stands for the empty path, for 0, or for the word after the last one
  bool required = false;
  bool trajectory = true;  ///< another value changes the weights that a run ends with, in a run where the key acts
  /// Other keys that make this one act, as --set takes them, with blanks between; "": it acts in any run.
  std::string_view acts_in = {};
  std::vector<std::string_view> synonyms = {};  ///< what other systems and people call it
  std::string_view not_built = {};              ///< why every value but the default is refused for now
  std::string_view doc;

  /// "model.config.hidden_size".
  std::string path() const;
  /// The value in `config` as JSON; its default when `config` is `Config{}`.
  std::string json(const Config& config) const;
  /// What the field takes, in a few words: "integer", "0..1", "\"off\", \"bf16\" or \"fp16\"".
  std::string hint() const;
};

struct Section {
  std::string_view path;
  std::vector<std::string_view> synonyms;
  std::string_view doc;
};

/// A key that people bring along and that is no field here.
struct Elsewhere {
  std::vector<std::string_view> names;
  std::string_view remedy;
};

/// All fields, in the order of the documentation.
const std::vector<Field>& fields();
/// All sections, the outer before the inner.
const std::vector<Section>& sections();
const std::vector<Elsewhere>& elsewhere();

/// Null when there is no such field.
const Field* find_field(std::string_view section, std::string_view name);
const Section* find_section(std::string_view path);

/// `section`.`name`, or `name` alone on the top level.
std::string join_path(std::string_view section, std::string_view name);
/// Both parts again: "model.config" and "hidden_size"; the section is empty on the top level.
std::string_view section_of(std::string_view path);
std::string_view name_of(std::string_view path);

/// The words that are built, as `"a", "b" or "c"`.
std::string list_choices(const std::vector<Choice>& choices);

/// The words with `between` between them; `none` stands for no words.
std::string joined(const std::vector<std::string>& words, std::string_view between = ", ", std::string_view none = "");

/// "a, b or c".
std::string list_words(const std::vector<std::string>& words);

}  // namespace mixtape::config
