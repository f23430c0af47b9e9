// inspect scale: how the loss scale of a run moved, from what stands in its log.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tools/inspect/log_events.h"
#include "tools/trainer/json.h"
#include "tools/trainer/progress.h"

namespace mixtape::inspect {

/// The scale that a step used. Known of every logged step and of every skipped one.
struct ScalePoint {
  int64_t step = 0;
  double scale = 1;
  bool skipped = false;  ///< what follows may use a smaller one
};

/// The scale is another at `by` than it was at `after`, the known steps on both sides.
struct ScaleMove {
  int64_t after = 0, by = 0;
  double from = 1, to = 1;
};

/// A step that was skipped, or an attempt at one whose batches ran again.
struct SkippedStep {
  int64_t step = 0;
  double scale = 1;
  std::string outcome;     ///< "skipped_overflow", "skipped_nonfinite_loss"
  bool retried = false;    ///< the same batches ran again: the step was not lost
  int64_t parameters = 0;  ///< whose gradients were not finite
  std::string first;       ///< of these
};

struct ScaleAtEvaluation {
  int64_t step = 0;
  std::optional<double> scale;    ///< that its step used; absent where the log leaves that open
  std::optional<double> loss;     ///< on val
  std::optional<double> flushed;  ///< of the activation gradients of that step: the share of values lost to 0
};

struct ScaleTimeline {
  std::string dir, amp;  ///< amp.dtype: "off", "bf16", "fp16"
  bool dynamic = false;
  int64_t steps = 0, updates = 0;  ///< as far as the log tells
  std::vector<ScalePoint> points;
  std::vector<ScaleMove> growths, backoffs;
  std::vector<SkippedStep> skips;
  std::vector<ScaleAtEvaluation> evaluations;
  std::vector<int64_t> resumes;  ///< after which step the run went on
  std::vector<int64_t> damaged;  ///< lines of the log that are no event
};

/// Of a run directory. Throws E-RUN-DIR (model) where there is no run; a log without steps gives a timeline without.
ScaleTimeline scale_timeline(const std::string& dir);
/// The scale of a step that is not known itself: that of the known steps around it, of which `next` may be missing.
/// Absent where it moved between them, unless by the skip before.
std::optional<double> scale_between(const ScalePoint& before, const ScalePoint* next);
/// The part that only reads events.
void read_scales(const LogEvents& log, ScaleTimeline& timeline);
/// Measures `flushed` of every evaluation of a run in fp16, by repeating its steps (at_step.h, whose errors it throws).
void measure_flushed(ScaleTimeline& timeline, trainer::Progress& progress);

std::string scale_text(const ScaleTimeline& timeline);
trainer::Json scale_json(const ScaleTimeline& timeline);

}  // namespace mixtape::inspect
