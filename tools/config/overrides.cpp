// --set a.b=VALUE: the value becomes a part of the document before anything is checked.
#include <algorithm>

#include "core/error.h"
#include "tools/config/check.h"
#include "tools/config/json_text.h"
#include "tools/config/suggest.h"

namespace mixtape::config {
namespace {

constexpr Position kCommandLine{.line = 0, .column = 0};

void place_on_command_line(Value& value) {
  value.at = kCommandLine;
  for (Value& item : value.items) place_on_command_line(item);
  for (Member& member : value.members) {
    member.at = kCommandLine;
    place_on_command_line(member.value);
  }
}

std::vector<std::string> split(const std::string& path) {
  std::vector<std::string> parts(1);
  for (const char c : path) {
    if (c == '.') {
      parts.emplace_back();
    } else {
      parts.back().push_back(c);
    }
  }
  return parts;
}

/// The field that a path names; `rule` is set for a row of a field of rules ("amp.overrides.softmax").
struct Target {
  const Field* field = nullptr;
  bool rule = false;
};

Target find_target(const std::string& path) {
  const std::string_view section = section_of(path);
  if (const Field* field = find_field(section, name_of(path))) return {field, false};
  for (const Field& field : fields()) {
    if (field.type == Type::rules && field.path() == section) return {&field, true};
  }
  return {};
}

Problem unknown_path(const std::string& path) {
  if (find_section(path) != nullptr) {
    return {"E-CONFIG-TYPE", kCommandLine, path,
            message("this is a section: set one of its keys, --set ", path, ".KEY=VALUE")};
  }
  std::string section;
  for (const std::string& part : split(path)) {
    const std::string whole = join_path(section, part);
    if (find_section(whole) == nullptr) {
      const std::string text = suggest_key(section, part, true).text;
      return {"E-CONFIG-UNKNOWN-KEY", kCommandLine, path, "unknown key." + (text.empty() ? "" : " " + text)};
    }
    section = whole;
  }
  return {"E-CONFIG-UNKNOWN-KEY", kCommandLine, path, "unknown key."};
}

bool takes_words(Type type) {
  return type == Type::choice || type == Type::path || type == Type::policy || type == Type::scale;
}

/// The text as JSON, or as the word that it is where the field takes one.
Value read_value(const Target& target, const std::string& path, const std::string& text,
                 std::vector<Problem>& problems) {
  Document document = read_json(text);
  const bool read = document.complete && document.problems.empty();
  const bool words = target.rule || takes_words(target.field->type);
  const bool number = read && document.root.kind == Kind::number && target.field->type == Type::scale;
  const bool null = read && document.root.kind == Kind::null && target.field->nullable;
  const bool quoted = !text.empty() && text[0] == '"';
  const bool plain_word = text.find_first_of("{}[]\" ,:") == std::string::npos && explain_word(text).empty();
  Value out;
  if ((words && !quoted && !number && !null) || (!read && plain_word)) {
    out.kind = Kind::string;
    out.text = text;
  } else {
    out = std::move(document.root);
    if (!read) out.kind = Kind::invalid;
  }
  if (out.kind == Kind::invalid) {
    Value shown;
    shown.kind = Kind::invalid;
    shown.text = text;
    for (const Problem& problem : document.problems) {
      problems.push_back({problem.code, kCommandLine, path + " = " + spelling(shown), problem.text});
    }
  }
  place_on_command_line(out);
  return out;
}

Member& member_of(Value& object, const std::string& key) {
  const auto found = std::find_if(object.members.begin(), object.members.end(),
                                  [&](const Member& member) { return member.key == key; });
  if (found != object.members.end()) return *found;
  object.members.push_back({key, kCommandLine, {}});
  object.members.back().value.kind = Kind::object;
  object.members.back().value.at = kCommandLine;
  return object.members.back();
}

}  // namespace

void apply_set(Value& root, const std::string& argument, std::vector<Problem>& problems) {
  const size_t equals = argument.find('=');
  if (equals == std::string::npos || equals == 0) {
    problems.push_back(
        {"E-CONFIG-SET", kCommandLine, argument, "--set takes a dotted path and a value: --set trainer.seed=7"});
    return;
  }
  const std::string path = argument.substr(0, equals);
  const Target target = find_target(path);
  if (target.field == nullptr) {
    problems.push_back(unknown_path(path));
    return;
  }
  Value value = read_value(target, path, argument.substr(equals + 1), problems);
  Value* object = &root;
  std::vector<std::string> parts = split(path);
  const std::string last = parts.back();
  parts.pop_back();
  for (const std::string& part : parts) {
    object = &member_of(*object, part).value;
    if (object->kind != Kind::object) return;  // the file has something else there, and that is an error already
  }
  member_of(*object, last).value = std::move(value);
}

}  // namespace mixtape::config
