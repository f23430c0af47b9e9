// RunReport: what a run leaves in its directory and tells a person: log.jsonl, metrics.json, lines and progress.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tools/trainer/log.h"
#include "tools/trainer/run_state.h"
#include "tools/trainer/trainer.h"

namespace mixtape::trainer {

/// So many skips in so many steps are no longer what a scale that tries to grow costs now and then.
inline constexpr int64_t skip_window = 200, many_skips = 10;

/// What a person hears about overflows: those before the first applied step fold into one line, then
/// `amp.overflow_messages` decides. All of them are in log.jsonl. A loss that is not finite is told always.
class SkipMessages {
 public:
  SkipMessages(Progress& progress, const config::Config& config, std::string dir);
  void step(const StepReport& report);
  /// Goes on with a run that was there before.
  void resume(const RunState& state);

 private:
  void say_later(const StepReport& report);
  std::string verdict(const StepReport& report);

  Progress& progress_;
  std::string dir_;
  amp::ScaleOptions scaling_;
  std::vector<int64_t> recent_;  // steps with an overflow, of the last skip_window
  config::OverflowMessages which_;
  bool started_ = false;
  int64_t steps_at_start_ = 0, attempts_at_start_ = 0;  // skipped in the end, tried again
  int64_t later_ = 0;
  double first_scale_ = 0;
};

class RunReport {
 public:
  /// Begins log.jsonl and prints the plan; or, given where a run goes on, cuts the log back to there. `device` is where
  /// the model lies.
  RunReport(const config::Config& config, const RunPlan& plan, std::vector<std::string> class_names, Device device,
            const RunDir& dir, Progress& progress, const ResumePoint* from);

  void step(const StepReport& report);
  /// An attempt whose batches run again. Its event is written with those of its step.
  void overflow(const StepReport& report);
  void eval(const EvalReport& report);
  /// `kind`: "state" of a checkpoint, "best" of best/. `seconds` of training so far.
  void checkpoint(int64_t step, const std::string& kind, const std::string& path, double seconds);
  void save_failed(int64_t step, const std::string& text);
  void diverged(int64_t step, const std::string& text);
  void interrupted(int64_t step, const std::string& signal);
  /// The event of the last step, if its number did not ask for one.
  void write_last_step();
  /// All events so far are on the disk, or an Error of kind io is thrown.
  void sync() { log_.sync(); }
  void end(const TrainResult& result);
  void write_metrics(const TrainResult& result);
  void show_result(const TrainResult& result);

 private:
  void begin(const ResumePoint* from);
  void write_step(const StepReport& report);
  void show(const StepReport& report, bool log_line);
  void write_skip(const StepReport& report);
  void write_attempts();

  const config::Config& config_;
  RunPlan plan_;
  std::vector<std::string> class_names_;
  Device device_;
  const RunDir& dir_;
  Progress& progress_;
  RunLog log_;
  SkipMessages messages_;

  std::optional<StepReport> unwritten_;  // the last step, as long as it has no event
  std::vector<StepReport> in_vain_;      // of the running step
  int64_t skipped_ = 0;                  // of the whole run
  int64_t steps_ = 0, tokens_ = 0;       // of this session, as all that speaks of speed
  double seconds_ = 0, first_seconds_ = 0;
};

/// The most that the process ever had in memory; not that of a device.
int64_t peak_rss_bytes();

}  // namespace mixtape::trainer
