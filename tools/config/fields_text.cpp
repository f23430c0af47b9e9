// The field table in words: lookups, and what errors and pages say about a field.
#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "tools/config/fields.h"
#include "tools/config/json_locate.h"

namespace mixtape::config {
namespace {

template <class... Functions>
struct Overloaded : Functions... {
  using Functions::operator()...;
};
template <class... Functions>
Overloaded(Functions...) -> Overloaded<Functions...>;

std::string rules_json(const std::map<std::string, std::string>& rules) {
  std::string out;
  for (const auto& [op, rule] : rules) out += (out.empty() ? "" : ", ") + quote_json(op) + ": " + quote_json(rule);
  return "{" + out + "}";
}

/// 1000000, not 1e+06.
std::string bound(double value) {
  const bool whole = value == std::floor(value) && std::abs(value) < 1e15;
  return whole ? message(static_cast<int64_t>(value)) : message(value);
}

}  // namespace

bool Range::holds(double value) const {
  return (above_low ? value > low : value >= low) && (below_high ? value < high : value <= high);
}

std::string Range::text() const {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  const bool has_low = low > -infinity, has_high = high < infinity;
  if (has_low && has_high && !above_low && !below_high) return message("between ", bound(low), " and ", bound(high));
  std::string out;
  if (has_low) out = message(above_low ? "> " : ">= ", bound(low));
  if (has_high) out += message(out.empty() ? "" : " and ", below_high ? "< " : "<= ", bound(high));
  return out;
}

std::string join_path(std::string_view section, std::string_view name) {
  return section.empty() ? std::string(name) : message(section, ".", name);
}

std::string_view section_of(std::string_view path) {
  const size_t dot = path.rfind('.');
  return dot == std::string_view::npos ? std::string_view() : path.substr(0, dot);
}
std::string_view name_of(std::string_view path) { return path.substr(path.rfind('.') + 1); }

std::string Field::path() const { return join_path(section, name); }

std::string Field::json(const Config& config) const {
  Config& reader = const_cast<Config&>(config);  // the accessors only hand out the member
  return std::visit(
      Overloaded{[](std::monostate) { return std::string("null"); },
                 [&](bool& (*member)(Config&)) { return message(member(reader)); },
                 [&](int64_t& (*member)(Config&)) {
                   return nullable && member(reader) == 0 ? "null" : message(member(reader));
                 },
                 [&](double& (*member)(Config&)) {
                   return type == Type::scale && member(reader) == 0 ? "\"dynamic\"" : message(member(reader));
                 },
                 [&](std::string& (*member)(Config&)) {
                   return nullable && member(reader).empty() ? "null" : quote_json(member(reader));
                 },
                 [&](std::map<std::string, std::string>& (*member)(Config&)) { return rules_json(member(reader)); },
                 [&](ChoiceSlot slot_of) {
                   const auto index = static_cast<size_t>(slot_of.get(config));
                   return nullable && index == choices.size() ? "null" : quote_json(choices[index].value);
                 }},
      slot);
}

std::string Field::hint() const {
  const std::string bounds = range.text();
  switch (type) {
    case Type::boolean: return "true or false";
    case Type::integer: return "integer";
    case Type::number:
      if (bounds.substr(0, 7) == "between" && range.high <= 1) return message(range.low, "..", range.high);
      return bounds.empty() || bounds[0] == 'b' ? "number" : "number " + bounds;
    case Type::choice: return list_choices(choices);
    case Type::path: return "a path";
    case Type::policy: return list_choices(choices) + ", or a path ending in .json";
    case Type::scale: return "\"dynamic\" or a number";
    case Type::rules: return "an object: op name -> " + list_choices(choices);
  }
  return {};
}

const Field* find_field(std::string_view section, std::string_view name) {
  for (const Field& field : fields()) {
    if (field.section == section && field.name == name) return &field;
  }
  return nullptr;
}

const Section* find_section(std::string_view path) {
  for (const Section& section : sections()) {
    if (section.path == path) return &section;
  }
  return nullptr;
}

std::string joined(const std::vector<std::string>& words, std::string_view between, std::string_view none) {
  std::string out;
  for (const std::string& word : words) out.append(out.empty() ? "" : between).append(word);
  return out.empty() ? std::string(none) : out;
}

std::string list_words(const std::vector<std::string>& words) {
  std::string out;
  for (size_t i = 0; i < words.size(); ++i) {
    out += (i == 0 ? "" : i + 1 == words.size() ? " or " : ", ") + words[i];
  }
  return out;
}

std::string list_choices(const std::vector<Choice>& choices) {
  std::vector<std::string> words;
  for (const Choice& choice : choices) {
    if (choice.not_built.empty()) words.push_back(quote_json(choice.value));
  }
  return list_words(words);
}

}  // namespace mixtape::config
