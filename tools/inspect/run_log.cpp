#include "tools/inspect/run_log.h"

#include <algorithm>

#include "core/error.h"
#include "data/file.h"
#include "tools/inspect/log_events.h"

namespace mixtape::inspect {
namespace {

LoggedSkip skip_of(const LogEvent& event, int64_t step) {
  LoggedSkip skip{.step = step,
                  .loss_scale = event.number("loss_scale").value_or(1),
                  .outcome = event.text("outcome"),
                  .parameters = event.texts("parameters"),
                  .retried = event.flag("retried")};
  return skip;
}

}  // namespace

LoggedRun read_run_log(const std::string& dir) {
  const LogEvents log = read_log_events(dir);
  const std::string path = dir + "/log.jsonl";
  if (log.lines == 0) fail(ErrorKind::model, "E-RUN-LOG", path + ": is not there or empty: nothing tells of the run");
  for (const int64_t line : log.damaged) {
    if (line == log.lines && log.is_cut) continue;  // the run was killed, or is writing it now
    fail(ErrorKind::model, "E-RUN-LOG",
         message(data::at_line(path, static_cast<size_t>(line)),
                 ": is no event (expected one JSON object a line): the file was damaged"));
  }
  LoggedRun run;
  for (const LogEvent& event : log.events) {
    const bool counts = event.name == "overflow" || event.name == "change";
    if (counts && !event.integer("step")) {
      fail(ErrorKind::model, "E-RUN-LOG",
           message(data::at_line(path, static_cast<size_t>(event.line)), ": \"", event.name,
                   "\" has no step: the file was damaged"));
    }
    const int64_t step = event.integer("step").value_or(0);
    run.last_step = std::max(run.last_step, step);
    if (event.name == "diverged") run.diverged_at = step;
    if (event.name == "overflow") run.skips.push_back(skip_of(event, step));
    if (event.name == "change")
      run.changes.push_back({step, event.text("key"), event.text("before"), event.text("now")});
  }
  return run;
}

}  // namespace mixtape::inspect
