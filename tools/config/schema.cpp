// The field table as a JSON Schema.
#include <cmath>

#include "core/error.h"
#include "core/op.h"
#include "tools/config/describe.h"
#include "tools/config/fields.h"
#include "tools/config/json_locate.h"

namespace mixtape::config {
namespace {

std::string member(std::string_view key, const std::string& json) { return message(quote_json(key), ": ", json); }
std::string text(std::string_view key, std::string_view value) { return member(key, quote_json(value)); }

std::string array(const std::vector<std::string>& items) { return "[" + joined(items) + "]"; }
std::string object(const std::vector<std::string>& members) { return "{" + joined(members) + "}"; }

/// The words that are built, then null where it may stand.
std::string words(const Field& field) {
  std::vector<std::string> out;
  for (const Choice& choice : field.choices) {
    if (choice.not_built.empty()) out.push_back(quote_json(choice.value));
  }
  if (field.nullable) out.emplace_back("null");
  return array(out);
}

std::string type(std::string_view name, bool nullable) {
  return member("type", nullable ? array({quote_json(name), "\"null\""}) : quote_json(name));
}

std::string number(const Range& range, std::string_view name, bool nullable) {
  std::vector<std::string> out = {type(name, nullable)};
  if (std::isfinite(range.low))
    out.push_back(message(range.above_low ? "\"exclusiveMinimum\": " : "\"minimum\": ", range.low));
  if (std::isfinite(range.high))
    out.push_back(message(range.below_high ? "\"exclusiveMaximum\": " : "\"maximum\": ", range.high));
  return joined(out);
}

std::string op_names() {
  std::vector<std::string> names;
  for (const OpSchema* op : registry()) names.push_back(quote_json(op->info->name));
  return array(names);
}

/// The members that say which values the field takes.
std::string values(const Field& field) {
  if (!field.not_built.empty()) return member("const", field.json(Config{}));
  switch (field.type) {
    case Type::boolean: return type("boolean", field.nullable);
    case Type::integer: return number(field.range, "integer", field.nullable);
    case Type::number: return number(field.range, "number", field.nullable);
    case Type::choice: return member("enum", words(field));
    case Type::path: return type("string", field.nullable) + ", \"minLength\": 1, \"pattern\": \"^[^~]\"";
    case Type::policy:
      return member("anyOf", array({object({member("enum", words(field))}),
                                    object({type("string", false), text("pattern", "^[^~].*\\.json$")})}));
    case Type::scale:
      return member("anyOf",
                    array({object({text("const", "dynamic")}), object({number(field.range, "number", false)})}));
    case Type::rules:
      return joined({type("object", false), member("propertyNames", object({member("enum", op_names())})),
                     member("additionalProperties", object({member("enum", words(field))}))});
  }
  return {};
}

std::string property(const Field& field) {
  std::string doc(field.doc);
  if (!field.range.why.empty()) doc += message(" (", field.range.why, ".)");
  std::vector<std::string> parts = {values(field)};
  if (!field.required) parts.push_back(member("default", field.json(Config{})));
  parts.push_back(text("description", doc));
  return member(field.name, object(parts));
}

/// Which keys must stand in an object, as far as it does not depend on others.
std::string required_in(std::string_view section) {
  std::vector<std::string> names;
  for (const Field& field : fields()) {
    const bool here = field.section == section, in_inner = section.empty() && !field.section.empty();
    const bool always = field.required && !field.nullable;
    if (always && (here || in_inner)) names.push_back(quote_json(here ? field.name : field.section));
  }
  return names.empty() ? "" : member("required", array(names));
}

/// tokenizer.vocab or model.pretrained, and one warm-up.
const std::string vocabulary_from_somewhere =
    R"("anyOf": [
    {"required": ["tokenizer"], "properties": {"tokenizer": {"required": ["vocab"], "properties": {"vocab": {"type": "string"}}}}},
    {"required": ["model"], "properties": {"model": {"required": ["pretrained"], "properties": {"pretrained": {"type": "string"}}}}}])";
const std::string one_warm_up = R"("not": {"required": ["warmup_steps", "warmup_ratio"]})";

std::string section_schema(std::string_view section, std::string_view doc, const std::string& indent) {
  std::string properties;
  const auto add = [&](const std::string& property) {
    properties += message(properties.empty() ? "" : ",", "\n", indent, "    ", property);
  };
  for (const Section& inner : sections()) {
    if (section_of(inner.path) != section) continue;
    add(message(quote_json(name_of(inner.path)), ": {\n", section_schema(inner.path, inner.doc, indent + "    "), "\n",
                indent, "    }"));
  }
  for (const Field& field : fields()) {
    if (field.section == section) add(property(field));
  }
  std::vector<std::string> parts = {text("description", doc), "\"type\": \"object\"",
                                    "\"additionalProperties\": false"};
  if (const std::string required = required_in(section); !required.empty()) parts.push_back(required);
  if (section.empty()) parts.push_back(vocabulary_from_somewhere);
  if (section == "trainer") parts.push_back(one_warm_up);
  parts.push_back(message("\"properties\": {", properties, "\n", indent, "  }"));
  std::string out;
  for (const std::string& part : parts) out += message(out.empty() ? "" : ",\n", indent, "  ", part);
  return out;
}

}  // namespace

std::string json_schema() {
  return message("{\n  \"$schema\": \"https://json-schema.org/draft/2020-12/schema\",\n  \"title\": ",
                 "\"Configuration of a Mixtape run\",\n", section_schema("", "Made from the field table.", ""),
                 "\n}\n");
}

}  // namespace mixtape::config
