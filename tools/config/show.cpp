#include "tools/config/show.h"

#include <algorithm>

#include "amp/policy.h"
#include "core/error.h"
#include "tools/config/fields.h"
#include "tools/config/json_locate.h"

namespace mixtape::config {
namespace {

/// A default that would outweigh the policy's own word if it were written.
bool is_left_to_policy(const Config& config, const Field& field) {
  const std::string& policy = config.amp.policy;
  return field.path() == "amp.loss_scale" && !config.written("amp.loss_scale") &&
         (policy.ends_with(".json") || !amp::Policy::load(policy).dynamic_scale);
}

std::string members(const Config& config, std::string_view section, const std::string& indent) {
  std::vector<std::string> parts;
  for (const Section& inner : sections()) {
    if (section_of(inner.path) != section) continue;
    const std::string body = members(config, inner.path, indent + "  ");
    const std::string_view name = name_of(inner.path);
    parts.push_back(message(quote_json(name), ": {", body, body.empty() ? "" : "\n" + indent + "  ", "}"));
  }
  for (const Field& field : fields()) {
    if (field.section == section && counts(config, field) && !is_left_to_policy(config, field)) {
      parts.push_back(message(quote_json(field.name), ": ", field.json(config)));
    }
  }
  std::string out;
  for (const std::string& part : parts) out += message(out.empty() ? "" : ",", "\n", indent, "  ", part);
  return out;
}

std::string object(const Config& config, const std::string& indent) {
  return "{" + members(config, "", indent) + "\n" + indent + "}";
}

std::string escaped_for_table(std::string text) {
  for (size_t at = 0; (at = text.find('|', at)) != std::string::npos; at += 2) text.insert(at, "\\");
  return text;
}

std::string allowed(const Field& field) {
  if (field.type == Type::boolean) return "`true`, `false`";
  if (field.type == Type::path) return field.nullable ? "path or `null`" : "path";
  const std::string bounds = field.range.text();
  std::string words;
  for (const Choice& choice : field.choices) {
    if (choice.not_built.empty()) words += message(words.empty() ? "" : ", ", "`", quote_json(choice.value), "`");
  }
  switch (field.type) {
    case Type::integer: return message("integer ", bounds, field.nullable ? ", or `null`" : "");
    case Type::number: return bounds.empty() ? "number" : "number " + bounds;
    case Type::scale: return "`\"dynamic\"` or a number " + bounds;
    case Type::policy: return words + ", or a path ending in `.json`";
    case Type::rules: return "object: op name → one of " + words;
    default: return words.empty() ? "`null`" : words;
  }
}

std::string not_built(const Field& field) {
  if (!field.not_built.empty())
    return message("Only the default works so far: ", field.not_built, " is not built yet.");
  std::string words;
  for (const Choice& choice : field.choices) {
    if (!choice.not_built.empty()) words += message(words.empty() ? "" : ", ", "`", quote_json(choice.value), "`");
  }
  return words.empty() ? "" : "Not built yet: " + words + ".";
}

std::string row(const Field& field) {
  std::string about(field.doc);
  if (!field.range.why.empty()) about += message(" (", field.range.why, ".)");
  if (const std::string missing = not_built(field); !missing.empty()) about += " " + missing;
  std::string standard = "`" + field.json(Config{}) + "`";
  if (field.required) standard = field.nullable ? "required without `model.pretrained`" : "required";
  return message("| `", field.path(), "` | ", escaped_for_table(allowed(field)), " | ", standard, " | ",
                 field.trajectory ? "yes" : "no", " | ", escaped_for_table(about), " |\n");
}

std::string table(std::string_view section) {
  std::string out = "| key | takes | default | trajectory | what it does |\n|---|---|---|---|---|\n";
  for (const Field& field : fields()) {
    if (field.section == section) out += row(field);
  }
  return out;
}

/// What a reader wants to see: what counts, and what came from a model's directory.
bool shown(const Config& config, const Field& field) {
  return counts(config, field) || config.origin(field.path()).kind == Origin::Kind::pretrained;
}

}  // namespace

bool counts(const Config& config, const Field& field) {
  const std::string path = field.path();
  if (std::holds_alternative<std::monostate>(field.slot)) return false;
  if (path == "amp.opt_level") return false;  // amp.policy says it
  if (path == "trainer.warmup_steps") return config.warmup_by_steps();
  if (path == "trainer.warmup_ratio") return !config.warmup_by_steps();
  if (path == "model.config.vocab_size" && config.model.config.vocab_size == 0) return false;
  if (field.section == "model.config" && !config.model.pretrained.empty()) return config.written(path);
  return true;
}

std::string to_json(const Config& config) { return object(config, "") + "\n"; }

std::vector<ShownValue> shown_values(const Config& config) {
  std::vector<ShownValue> out;
  const Config defaults;
  for (const Field& field : fields()) {
    if (!shown(config, field)) continue;
    const bool lacking = field.required && !config.origins.count(field.path());  // only without a file
    const std::string value = lacking ? "null" : field.json(config);
    out.push_back({field.path(), value, lacking ? "required" : config.origin(field.path()).text(),
                   value == field.json(defaults)});
  }
  return out;
}

std::string show_text(const Config& config) {
  std::vector<std::pair<std::string, std::string>> lines;
  size_t width = 0;
  for (const ShownValue& row : shown_values(config)) {
    lines.emplace_back(message(row.key, " = ", row.value), row.origin);
    if (lines.back().first.size() <= 60) width = std::max(width, lines.back().first.size());
  }
  std::string out;
  for (const auto& [value, origin] : lines) {
    out += value + std::string(width > value.size() ? width - value.size() : 0, ' ') + "  " + origin + "\n";
  }
  return out;
}

std::string show_json(const Config& config) {
  std::string origins;
  for (const Field& field : fields()) {
    if (!shown(config, field)) continue;
    origins += message(origins.empty() ? "" : ",", "\n    ", quote_json(field.path()), ": ",
                       quote_json(config.origin(field.path()).text()));
  }
  return message("{\n  \"config\": ", object(config, "  "), ",\n  \"origins\": {", origins, "\n  }\n}\n");
}

std::string reference_page() {
  std::string out =
      "# Configuration keys\n\n"
      "Made from the field table (`tools/config/fields.cpp`) by `mixtape config show --markdown`; a test fails when it "
      "is stale.\n\n"
      "A configuration is one JSON object; `//` and `/* */` comments are allowed. Relative paths are relative to the\n"
      "configuration file, also those of `--set`. \"trajectory\" says whether another value changes the weights that "
      "a\n"
      "run ends with.\n";
  for (const Section& section : sections()) {
    out += message("\n## `", section.path, "`\n\n", section.doc, "\n\n", table(section.path));
  }
  return out + "\n## Top level\n\n" + table("");
}

}  // namespace mixtape::config
