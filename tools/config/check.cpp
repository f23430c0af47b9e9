#include "tools/config/check.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "core/error.h"
#include "core/op.h"
#include "tools/config/json_text.h"
#include "tools/config/suggest.h"

namespace mixtape::config {
namespace {

/// One value of the file on its way into its member.
class Assignment {
 public:
  Assignment(Checking& checking, const Field& field, const Value& value)
      : checking_(checking), field_(field), value_(value), path_(field.path()) {}

  void run() {
    if (value_.kind == Kind::invalid) return spoil();
    if (value_.kind == Kind::null && field_.nullable) return;
    if (!assign()) return spoil();
    if (!field_.not_built.empty() && field_.json(checking_.config) != field_.json(Config{})) {
      report("E-CONFIG-NOT-BUILT",
             message("not built yet: ", field_.not_built, ". leave it at ", field_.json(Config{})));
      return spoil();
    }
    checking_.config.origins[path_] = checking_.origin_of(value_.at);
  }

 private:
  void spoil() { checking_.spoilt.insert(path_); }
  bool report(std::string_view code, std::string text) {
    return report(code, value_.at, path_ + " = " + spelling(value_), std::move(text));
  }
  bool report(std::string_view code, Position at, std::string subject, std::string text) {
    checking_.value_problems.push_back({std::string(code), at, std::move(subject), std::move(text)});
    return false;
  }

  bool assign() {
    switch (field_.type) {
      case Type::boolean: return boolean();
      case Type::integer: return integer();
      case Type::number: return number();
      case Type::choice: return choice();
      case Type::path: return path();
      case Type::policy: return policy();
      case Type::scale: return scale();
      case Type::rules: return rules();
    }
    return false;
  }

  template <class Target>
  bool store(const Target& target) {
    std::get<Target& (*)(Config&)>(field_.slot)(checking_.config) = target;
    return true;
  }

  bool boolean() { return value_.kind == Kind::boolean ? store(value_.boolean) : wrong_type(); }

  bool integer() {
    if (value_.kind != Kind::number) return wrong_type();
    if (std::floor(value_.number) != value_.number) return wrong_type();
    return in_range() && store(static_cast<int64_t>(value_.number));
  }

  bool number() {
    if (value_.kind != Kind::number) return wrong_type();
    return in_range() && store(value_.number);
  }

  bool in_range() {
    if (field_.range.holds(value_.number)) return true;
    const std::string why = field_.range.why.empty() ? "" : message(" (", field_.range.why, ")");
    return report("E-CONFIG-RANGE", message("must be ", field_.range.text(), why));
  }

  bool scale() {
    if (value_.kind == Kind::number) return in_range() && store(value_.number);
    if (value_.kind != Kind::string) return wrong_type();
    if (value_.text == "dynamic") return store(0.0);
    if (is_json_number(value_.text)) return wrong_type();
    return report("E-CONFIG-RANGE", message("must be ", field_.hint()));
  }

  bool choice() {
    if (value_.kind != Kind::string) return wrong_type();
    for (size_t i = 0; i < field_.choices.size(); ++i) {
      const Choice& choice = field_.choices[i];
      if (choice.value != value_.text) continue;
      if (!choice.not_built.empty()) return not_built(choice);
      std::get<ChoiceSlot>(field_.slot).set(checking_.config, static_cast<int>(i));
      return true;
    }
    return not_a_choice(value_);
  }

  bool not_built(const Choice& choice) {
    const std::string works = list_choices(field_.choices);
    return report("E-CONFIG-NOT-BUILT", message("not built yet: ", choice.not_built,
                                                works.empty() ? ". leave it out" : ". what works: ", works));
  }

  bool not_a_choice(const Value& value) {
    const std::string works = list_choices(field_.choices);
    return report("E-CONFIG-RANGE", message("must be ", works.empty() ? "null" : field_.hint(), ".",
                                            suggest_choice(field_.choices, value.text)));
  }

  bool path() {
    if (value_.kind != Kind::string) return wrong_type();
    if (value_.text.empty()) {
      return report("E-CONFIG-RANGE",
                    message("must be a path, not the empty string", field_.nullable ? "; null stands for none" : ""));
    }
    if (value_.text[0] == '~') return report("E-CONFIG-RANGE", "a ~ is not expanded here: write the whole path");
    return store(absolute(value_.text));
  }

  std::string absolute(const std::string& text) const {
    const std::filesystem::path whole = (std::filesystem::path(checking_.directory) / text).lexically_normal();
    const bool slash_at_end = !whole.has_filename() && whole.has_relative_path();
    return (slash_at_end ? whole.parent_path() : whole).string();
  }

  bool policy() {
    if (value_.kind != Kind::string) return wrong_type();
    for (const Choice& choice : field_.choices) {
      if (choice.value == value_.text) return choice.not_built.empty() ? store(value_.text) : not_built(choice);
    }
    if (std::filesystem::path(value_.text).extension() == ".json") return path();
    return not_a_choice(value_);
  }

  bool rules() {
    if (value_.kind != Kind::object) return wrong_type();
    std::map<std::string, std::string> rows;
    bool good = true;
    for (const Member& member : value_.members) {
      good = rule(member) && good;
      rows[member.key] = member.value.text;
    }
    return good && store(rows);
  }

  bool rule(const Member& member) {
    const Value& rule = member.value;
    const std::string subject = message(path_, ".", member.key);
    if (find_op(member.key) == nullptr) {
      std::vector<std::string> ops;
      for (const OpSchema* op : registry()) ops.emplace_back(op->info->name);
      std::vector<std::string> near = nearest(member.key, ops);
      for (std::string& name : near) name = quote_json(name);
      return report("E-CONFIG-UNKNOWN-OP", member.at, subject,
                    near.empty() ? "no such op; mixtape ops lists them"
                                 : message("no such op. did you mean ", list_words(near), "?"));
    }
    if (rule.kind == Kind::invalid) return false;
    const bool known = std::any_of(field_.choices.begin(), field_.choices.end(),
                                   [&](const Choice& choice) { return choice.value == rule.text; });
    if (rule.kind == Kind::string && known) return true;
    return report(rule.kind == Kind::string ? "E-CONFIG-RANGE" : "E-CONFIG-TYPE", rule.at,
                  message(subject, " = ", spelling(rule)),
                  message("must be ", list_choices(field_.choices), ".", suggest_choice(field_.choices, rule.text)));
  }

  bool wrong_type() {
    const std::string works = field_.hint().empty() ? "null" : field_.hint();
    return report("E-CONFIG-TYPE", message("must be ", article(), works, field_.nullable ? " or null" : "", ", not ",
                                           kind_text(), remedy()));
  }

  std::string_view article() const {
    return field_.type == Type::integer ? "an " : field_.type == Type::number ? "a " : "";
  }

  std::string kind_text() const {
    switch (value_.kind) {
      case Kind::null: return "null";
      case Kind::boolean: return value_.text;
      case Kind::number: return field_.type == Type::integer ? "a fraction" : "a number";
      case Kind::string: return "a string";
      case Kind::array: return "a list";
      default: return "an object";
    }
  }

  std::string remedy() const {
    const bool wants_number = field_.type == Type::integer || field_.type == Type::number || field_.type == Type::scale;
    const bool wants_boolean = field_.type == Type::boolean;
    if (value_.kind == Kind::null) return message(". leave the key out for the default, ", field_.json(Config{}));
    if (value_.kind == Kind::string && wants_number && is_json_number(value_.text))
      return ". drop the quotes: " + value_.text;
    if (value_.kind == Kind::string && wants_boolean) {
      const std::string advice = explain_word(value_.text);
      if (value_.text == "true" || value_.text == "false") return ". drop the quotes: " + value_.text;
      if (advice.find("write true") != std::string::npos) return ". write true";
      if (advice.find("write false") != std::string::npos) return ". write false";
    }
    if (value_.kind == Kind::number && wants_boolean && value_.number == 0) return ". write false";
    if (value_.kind == Kind::number && wants_boolean && value_.number == 1) return ". write true";
    if (field_.type == Type::choice && !value_.text.empty()) return "." + suggest_choice(field_.choices, value_.text);
    return {};
  }

  Checking& checking_;
  const Field& field_;
  const Value& value_;
  std::string path_;
};

/// "here are: seed, max_steps, …": what a section may hold.
std::string known_keys(const std::string& section) {
  std::vector<std::string> names;
  for (const Section& inner : sections()) {
    if (section_of(inner.path) == section) names.emplace_back(name_of(inner.path));
  }
  for (const Field& field : fields()) {
    if (field.section == section) names.emplace_back(field.name);
  }
  return (section.empty() ? "the top level holds: " : section + " holds: ") + joined(names);
}

void unknown_key(Checking& checking, const std::string& section, const Member& member) {
  constexpr size_t worth_a_search = 50;  // a wrong file may hold thousands
  Suggestion suggestion;
  if (member.key.find('.') != std::string::npos) {
    suggestion.text = "a dotted path is for --set; in the file, nest the objects: {\"trainer\": {\"seed\": 1}}";
  } else if (checking.key_problems.size() < worth_a_search) {
    suggestion = suggest_key(section, member.key, false);
    if (suggestion.text.empty()) suggestion.text = known_keys(section);
  }
  checking.key_problems.push_back({"E-CONFIG-UNKNOWN-KEY", member.at, join_path(section, member.key),
                                   "unknown key." + (suggestion.text.empty() ? "" : " " + suggestion.text)});
  checking.spoilt.insert(suggestion.paths.begin(), suggestion.paths.end());
}

}  // namespace

void check_object(Checking& checking, const Value& object, const std::string& section) {
  for (const Member& member : object.members) {
    const Section* inner =
        member.key.find('.') == std::string::npos ? find_section(join_path(section, member.key)) : nullptr;
    if (const Field* field = find_field(section, member.key)) {
      Assignment(checking, *field, member.value).run();
    } else if (inner == nullptr) {
      unknown_key(checking, section, member);
    } else if (member.value.kind == Kind::object) {
      check_object(checking, member.value, std::string(inner->path));
    } else if (member.value.kind != Kind::invalid) {
      checking.value_problems.push_back({"E-CONFIG-TYPE", member.value.at,
                                         message(inner->path, " = ", spelling(member.value)),
                                         "must be an object of keys: { … }"});
    }
  }
}

}  // namespace mixtape::config
