// Why a step was skipped: the step replayed, its first tensor that is not finite, and what would have helped.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tools/inspect/culprit.h"
#include "tools/trainer/json.h"

namespace mixtape::inspect {

enum class Verdict {
  parameters,  ///< weights are not finite: every step from here on is skipped
  forward,     ///< the forward is not finite: no loss scale helps
  unscaled,    ///< the run scales nothing (bf16, off): the gradient itself is beyond the format
  fixed,       ///< the scale is static, and too high for this step
  floor,       ///< the scale is at its floor and still too high
  unreached,   ///< no scale that was tried fits
  ended,       ///< a back-off would help, but the run had no more patience: amp.max_consecutive_skips
  frequent,    ///< a back-off that helps, but one of many
  harmless,    ///< a back-off that helps
};
std::string_view name_of(Verdict verdict);

struct Overflow {
  int64_t step = 0;
  int64_t replayed_from = 0;  ///< the step of a checkpoint; 0: the start weights
  double scale = 1, next_scale = 1;
  std::string outcome;
  bool retried = false;                 ///< the run tried the step again at a lower scale
  std::vector<std::string> parameters;  ///< whose gradients are not finite
  int64_t parameter_count = 0;
  std::vector<std::string> bad_weights;  ///< parameters that are not finite themselves
  double loss = 0;
  bool forward_finite = true;
  std::optional<Culprit> culprit;
  std::optional<double> passes_at;  ///< the largest scale below, by back-offs, at which the replay fits; absent: none
  double headroom = 0;              ///< there
  int64_t skips = 0;  ///< of the last `window` steps up to this one, those that overflowed, skipped or tried again
  int64_t window = 0;
  bool at_start = false;   ///< no step had been applied before
  bool ended_run = false;  ///< the run diverged here
  int64_t forgiven = 0;    ///< overflows that the scale forgives before it falls (amp.hysteresis - 1)
  Verdict verdict = Verdict::harmless;
  std::string note;  ///< of the machine
};

/// Replays the last skipped step of the run in `dir`, or this one. Throws what Replay throws, E-REPLAY-NOT-SKIPPED
/// (config) for a step that was applied, with those that were not, and E-REPLAY-DIFFERS (model) when the replay does
/// not show what log.jsonl says.
Overflow why_overflow(const std::string& dir, std::optional<int64_t> step, trainer::Progress& progress);
/// The next step of `replay` at this scale, as far as one step tells. Nothing is compared with a log.
Overflow explain_step(Replay& replay, double scale);

std::string overflow_text(const Overflow& overflow);
trainer::Json overflow_json(const Overflow& overflow);

}  // namespace mixtape::inspect
