// At a step: the model as it was just before one training step, with the batches of that step, to be run again under
// an observer in any precision.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/op.h"
#include "data/batch.h"
#include "models/classifier.h"
#include "tools/config/config.h"
#include "tools/trainer/progress.h"

namespace mixtape::inspect {

/// A step that has not run yet. Valid only while visit() of the functions below runs.
class PausedStep {
 public:
  struct Parts {
    const config::Config& config;
    const models::BertClassifier& model;
    int64_t step = 1;
    double loss_scale = 1;  ///< that the run would use now
    std::vector<data::Batch> batches;
  };
  explicit PausedStep(Parts parts) : parts_(std::move(parts)) {}

  const config::Config& config() const { return parts_.config; }
  const models::BertClassifier& model() const { return parts_.model; }
  int64_t step() const { return parts_.step; }
  double loss_scale() const { return parts_.loss_scale; }
  /// Texts of all micro-batches together.
  int64_t rows() const;

  /// Forward and backward of all micro-batches of the window, with the dropout masks of the step, under the observer of
  /// the context; null: nothing is cast, the step is in f32. Gradients that were there go; those of the step, which
  /// carry the scale as their multiplier, stay in the parameters until the next run. Returns the loss.
  double run(const std::shared_ptr<const CastRule>& rule, double scale = 1) const;

 private:
  Parts parts_;
};

using Visit = std::function<void(const PausedStep&)>;

/// What a replay started from.
struct Origin {
  int64_t checkpoint = 0;  ///< the step of a checkpoint; 0: the start weights
};

/// Trains in memory, from fresh or pretrained weights, and stops before each of `steps`, which ascend, to visit it.
/// Throws E-REPLAY-STEP (config) for a step that the plan does not have, and all that a training run throws.
Origin visit_steps(const config::Config& config, const std::vector<int64_t>& steps, trainer::Progress& progress,
                   const Visit& see);

/// The same for a run directory, from the newest checkpoint before the first of `steps`; throws what Replay throws, and
/// E-REPLAY-STEP for steps that the run has not done.
Origin visit_steps_of_run(const std::string& dir, const std::vector<int64_t>& steps, trainer::Progress& progress,
                          const Visit& see);

}  // namespace mixtape::inspect
