// RunState: all that the rest of a run needs beside weights and optimizer. Nothing in it depends on time or place.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "amp/grad_scaler.h"
#include "tools/trainer/metrics.h"
#include "tools/trainer/trajectory.h"

namespace mixtape::trainer {

/// Of a run between two steps: state.json of a checkpoint.
struct RunState {
  /// The best evaluation so far.
  struct Best {
    int64_t step = 0;
    std::string weights;  ///< hash_of_tensors of the parameters there
    Metrics metrics;
  };

  int64_t step = 0, updates = 0;
  int64_t tokens = 0, skipped = 0;
  int64_t evaluated_at = 0;  ///< the step of the last evaluation; 0: none yet
  int64_t evaluations_since_best = 0;
  amp::ScalerState scaler;
  std::map<std::string, amp::ScalerState> more_scalers;  ///< of losses of their own, by name (Trainer::add_scaler)
  std::string culprit;                                   ///< of the first loss in a row that was not finite
  std::optional<Best> best;
  Trajectory trajectory;

  std::string json() const;
};

/// What json() made. Throws E-CHECKPOINT (model) naming `path` and the member that is missing or of the wrong kind.
RunState parse_run_state(std::string_view text, const std::string& path);

}  // namespace mixtape::trainer
