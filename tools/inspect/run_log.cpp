#include "tools/inspect/run_log.h"

#include <algorithm>

#include "core/error.h"
#include "data/file.h"
#include "tools/config/json_locate.h"

namespace mixtape::inspect {
namespace {

constexpr uint64_t kMostBytes = uint64_t{1} << 30;

const config::Value* event_member(const config::Value& object, std::string_view key) {
  for (const config::Member& one : object.members) {
    if (one.key == key) return &one.value;
  }
  return nullptr;
}

std::string event_text(const config::Value& object, std::string_view key) {
  const config::Value* value = event_member(object, key);
  return value != nullptr && value->kind == config::Kind::string ? value->text : "";
}

double event_number(const config::Value& object, std::string_view key, double otherwise) {
  const config::Value* value = event_member(object, key);
  return value != nullptr && value->kind == config::Kind::number ? value->number : otherwise;
}

LoggedSkip skip_of(const config::Value& event, int64_t step) {
  LoggedSkip skip{.step = step,
                  .loss_scale = event_number(event, "loss_scale", 1),
                  .outcome = event_text(event, "outcome"),
                  .parameters = {},
                  .retried = event_member(event, "retried") != nullptr};
  if (const config::Value* parameters = event_member(event, "parameters")) {
    for (const config::Value& name : parameters->items) skip.parameters.push_back(name.text);
  }
  return skip;
}

void add_event(LoggedRun& run, const config::Value& event) {
  const auto step = static_cast<int64_t>(event_number(event, "step", 0));
  run.last_step = std::max(run.last_step, step);
  const std::string name = event_text(event, "event");
  if (name == "overflow") run.skips.push_back(skip_of(event, step));
  if (name == "change") {
    run.changes.push_back({step, event_text(event, "key"), event_text(event, "before"), event_text(event, "now")});
  }
}

}  // namespace

LoggedRun read_run_log(const std::string& dir) {
  const std::string path = dir + "/log.jsonl";
  const std::string text = data::read_file(path, ErrorKind::model, "E-RUN-LOG", kMostBytes);
  LoggedRun run;
  size_t line = 0;
  for (size_t start = 0, end = 0; start < text.size(); start = end + 1) {
    ++line;
    end = text.find('\n', start);
    if (end == std::string::npos) break;  // cut: the run was killed, or is writing it now
    const config::Document document = config::read_json(std::string_view(text).substr(start, end - start));
    if (!document.problems.empty() || document.root.kind != config::Kind::object) {
      fail(ErrorKind::model, "E-RUN-LOG",
           message(data::at_line(path, line), ": is no event (expected one JSON object a line): the file was damaged"));
    }
    add_event(run, document.root);
  }
  return run;
}

}  // namespace mixtape::inspect
