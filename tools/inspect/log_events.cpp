#include "tools/inspect/log_events.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "data/file.h"

namespace mixtape::inspect {
namespace {

constexpr uint64_t most_log_bytes = 2'000'000'000;

const config::Value* event_member(const config::Value& object, std::string_view key) {
  for (const config::Member& member : object.members) {
    if (member.key == key) return &member.value;
  }
  return nullptr;
}

}  // namespace

std::optional<double> LogEvent::number(std::string_view key) const {
  const config::Value* value = event_member(object, key);
  if (value == nullptr || value->kind != config::Kind::number) return std::nullopt;
  return value->number;
}

std::optional<int64_t> LogEvent::integer(std::string_view key) const {
  const std::optional<double> value = number(key);
  if (!value || *value != std::floor(*value) || std::abs(*value) > 9e15) return std::nullopt;
  return static_cast<int64_t>(*value);
}

std::string LogEvent::text(std::string_view key) const {
  const config::Value* value = event_member(object, key);
  return value != nullptr && value->kind == config::Kind::string ? value->text : "";
}

bool LogEvent::flag(std::string_view key) const {
  const config::Value* value = event_member(object, key);
  return value != nullptr && value->kind == config::Kind::boolean && value->boolean;
}

LogEvents read_log_events(const std::string& dir) {
  const std::string path = dir + "/log.jsonl";
  LogEvents out;
  if (std::error_code ignored; !std::filesystem::exists(path, ignored)) return out;
  const std::string text = data::read_file(path, ErrorKind::io, "E-IO-READ", most_log_bytes);
  int64_t line = 0;
  for (size_t start = 0; start < text.size(); ++line) {
    const size_t end = std::min(text.find('\n', start), text.size());
    config::Document document = config::read_json(std::string_view(text).substr(start, end - start));
    LogEvent event{.name = {}, .line = line + 1, .object = std::move(document.root)};
    event.name = event.text("event");
    if (document.problems.empty() && !event.name.empty())
      out.events.push_back(std::move(event));
    else
      out.damaged.push_back(line + 1);
    start = end + 1;
  }
  return out;
}

int64_t last_step_of(const LogEvents& log) {
  int64_t last = 0;
  for (const LogEvent& event : log.events) last = std::max(last, event.integer("step").value_or(0));
  return last;
}

}  // namespace mixtape::inspect
