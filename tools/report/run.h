// RunRecord: what the files of a run directory say, read back.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace mixtape::report {

/// The fields of a step event (tools/trainer/trainer.h, StepReport). NaN for what is not finite, or missing.
struct StepEvent {
  int64_t step = 0, updates = 0, epoch = 0;
  double loss = 0, grad_norm = 0, lr = 0, loss_scale = 1;
  double seconds = 0, tokens_per_s = 0, lost_updates = 0;
  bool applied = true;
};

/// An attempt that was thrown away.
struct SkipEvent {
  int64_t step = 0;
  double loss_scale = 1;
  std::string outcome;
  std::vector<std::string> parameters;
  std::string culprit;   ///< the first tensor that was not finite, after a loss that was not
  bool retried = false;  ///< its batches ran again: the step itself is not lost
};

struct ClassRow {
  std::string label;
  double precision = 0, recall = 0, f1 = 0;
  int64_t support = 0, predicted = 0;
};

struct Scores {
  double loss = 0, accuracy = 0, macro_f1 = 0;
  int64_t macro_over = 0, rows = 0;
  std::vector<ClassRow> classes;
  std::vector<std::vector<int64_t>> confusion;  ///< [truth][predicted]; empty unless it is square, by `classes`
};

struct EvalEvent {
  int64_t step = 0;
  std::string split;
  bool best = false;
  Scores scores;
};

/// What else happened: a resume, a changed value, a stop, a save that failed, divergence.
struct Remark {
  int64_t step = 0;
  std::string text;
};

/// metrics.json: a finished run.
struct Result {
  std::optional<Scores> val, test;
  int64_t best_step = 0, steps = 0, updates = 0, skipped = 0, tokens = 0;
  double seconds = 0, tokens_per_s = 0, peak_bytes = 0, peak_rss_bytes = 0;
  bool stopped_early = false;
};

/// How a run stands.
enum class Outcome { unfinished, finished, interrupted, diverged };

struct RunRecord {
  std::string dir, name;             ///< as given, and its last part
  int64_t steps_planned = 0;         ///< 0: the log has no start
  std::vector<StepEvent> steps;      ///< by step, each once
  std::vector<SkipEvent> skips;      ///< in the order of the log
  std::vector<EvalEvent> evals;      ///< the same
  std::vector<Remark> remarks;       ///< the same
  std::vector<std::string> damages;  ///< a sentence for each file that could not be read whole
  Outcome outcome = Outcome::unfinished;
  std::optional<Result> result;
  std::vector<std::pair<std::string, std::string>> machine;   ///< of run.json, in its order: "processor", "AMD EPYC"
  std::optional<std::map<std::string, std::string>> origins;  ///< of the configuration's values that are no defaults

  int64_t last_step() const;
  /// Attempts that were no retries: steps without an update.
  int64_t skipped() const;
};

/// Reads log.jsonl, metrics.json and run.json. Lines and files that are missing or damaged are left out and told in
/// `damages`; of a step that the log has twice the later line counts. Throws E-RUN-DIR (model) when `dir` is no run
/// directory, E-IO-READ (io) for a file that may not be read.
RunRecord read_run(const std::string& dir);

}  // namespace mixtape::report
