#include "tools/inspect/log_events.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "data/file.h"

namespace mixtape::inspect {
namespace {

constexpr uint64_t most_log_bytes = 2'000'000'000;

}  // namespace

std::optional<double> LogEvent::number(std::string_view key) const {
  const config::Value* value = config::find_member(object, key);
  if (value == nullptr || value->kind != config::Kind::number) return std::nullopt;
  return value->number;
}

std::optional<int64_t> LogEvent::integer(std::string_view key) const {
  const std::optional<double> value = number(key);
  if (!value || *value != std::floor(*value) || std::abs(*value) > 9e15) return std::nullopt;
  return static_cast<int64_t>(*value);
}

std::string LogEvent::text(std::string_view key) const {
  const config::Value* value = config::find_member(object, key);
  return value != nullptr && value->kind == config::Kind::string ? value->text : "";
}

std::vector<std::string> LogEvent::texts(std::string_view key) const {
  std::vector<std::string> out;
  if (const config::Value* value = config::find_member(object, key)) {
    for (const config::Value& item : value->items) out.push_back(item.text);
  }
  return out;
}

bool LogEvent::flag(std::string_view key) const {
  const config::Value* value = config::find_member(object, key);
  return value != nullptr && value->kind == config::Kind::boolean && value->boolean;
}

LogEvents read_log_events(const std::string& dir) {
  const std::string path = dir + "/log.jsonl";
  LogEvents out;
  if (std::error_code ignored; !std::filesystem::exists(path, ignored)) return out;
  const std::string text = data::read_file(path, ErrorKind::io, "E-IO-READ", most_log_bytes);
  out.is_cut = !text.empty() && text.back() != '\n';
  for (size_t start = 0; start < text.size();) {
    ++out.lines;
    const size_t end = std::min(text.find('\n', start), text.size());
    config::Document document = config::read_json(std::string_view(text).substr(start, end - start));
    LogEvent event{.name = {}, .line = out.lines, .object = std::move(document.root)};
    event.name = event.text("event");
    if (document.problems.empty() && !event.name.empty())
      out.events.push_back(std::move(event));
    else
      out.damaged.push_back(out.lines);
    start = end + 1;
  }
  return out;
}

}  // namespace mixtape::inspect
