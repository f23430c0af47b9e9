// RunLog, read back: what log.jsonl says of the steps of a run.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace mixtape::inspect {

/// An "overflow" event: a step, or an attempt at it, that was not applied.
struct LoggedSkip {
  int64_t step = 0;
  double loss_scale = 1;
  std::string outcome;
  std::vector<std::string> parameters;  ///< whose gradients were not finite, or "loss"
  bool retried = false;                 ///< an attempt: the step went on at a lower scale
};

/// A "change" event: a run that went on after `step` with another value.
struct LoggedChange {
  int64_t step = 0;
  std::string key, before, now;
};

struct LoggedRun {
  std::vector<LoggedSkip> skips;
  std::vector<LoggedChange> changes;
  int64_t last_step = 0;    ///< that any event speaks of
  int64_t diverged_at = 0;  ///< the step at which the run ended with E-DIVERGED; 0: it did not
};

/// Reads DIR/log.jsonl. A last line that is cut, as a killed run leaves it, is passed over; any other that is no event
/// is E-RUN-LOG (model) with its line, and so is a missing file.
LoggedRun read_run_log(const std::string& dir);

}  // namespace mixtape::inspect
