// A configuration to start from, and single keys in words.
#include <algorithm>

#include "core/error.h"
#include "tools/config/describe.h"
#include "tools/config/fields.h"
#include "tools/config/json_locate.h"
#include "tools/config/suggest.h"

namespace mixtape::config {
namespace {

/// "integer, between 1 and 1024", "\"off\", \"bf16\" or \"fp16\"".
std::string takes(const Field& field) {
  const bool number = field.type == Type::integer || field.type == Type::scale;
  const std::string bounds = number ? field.range.text() : "";
  std::string out = field.hint().empty() ? "" : field.hint() + (bounds.empty() ? "" : " " + bounds);
  if (field.nullable) out += out.empty() ? "null" : " or null";
  return out;
}

std::string missing(const Field& field) {
  if (!field.not_built.empty()) return message(field.not_built, ": only the default works so far");
  std::vector<std::string> words;
  for (const Choice& choice : field.choices) {
    if (!choice.not_built.empty()) words.push_back(quote_json(choice.value));
  }
  return list_words(words);
}

/// The text in lines of at most 100 characters, each begun with `prefix`.
std::string wrapped(const std::string& text, const std::string& prefix) {
  constexpr size_t width = 100;
  std::string out, line = prefix;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find(' ', at), text.size());
    if (line.size() + end - at > width && line != prefix) {
      line.pop_back();
      out += line + "\n";
      line = prefix;
    }
    line += text.substr(at, end - at) + " ";
    at = end + 1;
  }
  line.pop_back();
  return out + line + "\n";
}

/// Stands in the file, but as a comment: what would hide the pretrained directory's value, or the other warm-up.
bool commented_out(const Field& field) {
  return field.section == "model.config" || field.path() == "trainer.warmup_steps" || field.path() == "amp.opt_level";
}

std::string starting_value(const Field& field) {
  if (field.path() == "task.data_dir") return "\"data\"";
  if (field.path() == "tokenizer.vocab") return "\"vocab.txt\"";
  return field.json(Config{});
}

std::vector<std::string> starting_sections(std::string_view outer, const std::string& indent);

/// The keys of a section and the sections in it, each with its comment; a comma behind all but the last.
std::string starting_section(std::string_view section, const std::string& indent) {
  std::vector<std::string> parts, inner = starting_sections(section, indent);
  std::string pending;  // comments, which belong before the next key
  if (section.empty()) parts.swap(inner);
  for (const Field& field : fields()) {
    if (field.section != section) continue;
    std::string doc = message(field.doc, " Takes ", takes(field), ".");
    const std::string line = message(quote_json(field.name), ": ", starting_value(field));
    pending += wrapped(doc, indent + "// ");
    if (commented_out(field)) {
      pending += message(indent, "//   ", line, "\n");
    } else {
      parts.push_back(pending + indent + line);
      pending.clear();
    }
  }
  parts.insert(parts.end(), inner.begin(), inner.end());
  std::string out;
  for (const std::string& part : parts) out += message(out.empty() ? "" : ",\n", part);
  return message(out, out.empty() ? "" : "\n", pending);
}

std::vector<std::string> starting_sections(std::string_view outer, const std::string& indent) {
  std::vector<std::string> parts;
  for (const Section& section : sections()) {
    if (section_of(section.path) != outer) continue;
    parts.push_back(message(wrapped(std::string(section.doc), indent + "// "), indent,
                            quote_json(name_of(section.path)), ": {\n", starting_section(section.path, indent + "  "),
                            indent, "}"));
  }
  return parts;
}

std::string explanation(const Field& field, const Config* config) {
  std::vector<std::pair<std::string, std::string>> rows;
  rows.emplace_back("takes", takes(field));
  if (!field.range.why.empty()) rows.emplace_back("because", std::string(field.range.why));
  rows.emplace_back("default", field.required ? "none, it is required" : field.json(Config{}));
  if (config != nullptr) {
    rows.emplace_back("value", message(field.json(*config), "  (", config->origin(field.path()).text(), ")"));
  }
  rows.emplace_back("trajectory", field.trajectory ? "another value changes the weights that a run ends with"
                                                   : "the weights that a run ends with do not depend on it");
  if (!field.acts_in.empty()) rows.emplace_back("acts", message("for instance with ", field.acts_in));
  if (const std::string words = missing(field); !words.empty()) rows.emplace_back("not built", words);
  if (!field.synonyms.empty())
    rows.emplace_back("elsewhere", "called " + joined({field.synonyms.begin(), field.synonyms.end()}));
  std::string out = message(field.path(), "\n", wrapped(std::string(field.doc), "  "));
  for (const auto& [name, text] : rows) out += message("  ", name, std::string(12 - name.size(), ' '), text, "\n");
  return out;
}

[[noreturn]] void unknown(std::string_view path) {
  std::string section;
  for (size_t begin = 0; begin <= path.size();) {
    const size_t end = std::min(path.find('.', begin), path.size());
    const std::string_view part = path.substr(begin, end - begin);
    const std::string whole = join_path(section, part);
    if (find_section(whole) == nullptr) {
      const std::string near = suggest_key(section, part, true).text;
      fail(ErrorKind::config, "E-CONFIG-UNKNOWN-KEY",
           message(path, ": no such key or section", near.empty() ? "; mixtape config show lists them" : ". " + near));
    }
    section = whole;
    begin = end + 1;
  }
  fail(ErrorKind::config, "E-CONFIG-UNKNOWN-KEY", message(path, ": no such key or section"));
}

std::vector<const Field*> meant(std::string_view path) {
  std::vector<const Field*> by_path, by_name;
  for (const Field& field : fields()) {
    const std::string whole = field.path();
    const bool inside = path.empty() || whole.starts_with(message(path, "."));
    if (whole == path) return {&field};
    if (inside) by_path.push_back(&field);
    if (field.name == path) by_name.push_back(&field);
  }
  if (by_path.empty() && by_name.size() == 1) return by_name;
  if (by_path.empty()) unknown(path);
  return by_path;
}

}  // namespace

std::string starting_file() {
  return message(
      "// A configuration of mixtape: every key with its default. Change the two paths; delete what may stay as it "
      "is.\n"
      "// Keys that are commented out take their default too; those that you take in need commas between them.\n"
      "// mixtape config explain KEY tells more about a key, mixtape train THIS -s DIR trains.\n{\n",
      starting_section("", "  "), "}\n");
}

std::string explain(std::string_view path, const Config* config) {
  std::string out;
  for (const Field* field : meant(path)) out += message(out.empty() ? "" : "\n", explanation(*field, config));
  return out;
}

}  // namespace mixtape::config
