// One training step outside of a run, for benchmarks: what `train` does with a batch, with marks between the phases.
#pragma once

#include <functional>
#include <memory>

#include "amp/grad_scaler.h"
#include "data/batch.h"
#include "models/classifier.h"
#include "tools/config/config.h"
#include "tools/trainer/setup.h"
#include "tools/trainer/step_profile.h"

namespace mixtape::trainer {

class ProfiledStep {
 public:
  /// Policy, scaler and optimizer as the configuration says; both arguments must outlive it.
  ProfiledStep(const config::Config& config, const models::BertClassifier& model);

  /// Forward, backward, clipping and update on the batch that `next` makes; dropout draws by `seed` and the number of
  /// the call. `at_loss` sees the loss before it is swept. `profile` may be null: nothing is charged then.
  void take(uint64_t seed, const std::function<data::Batch()>& next, Profile* profile,
            const std::function<void(const Tensor& loss)>& at_loss = {});

  int64_t steps() const { return steps_; }  ///< taken or begun
  const Precision& precision() const { return precision_; }
  const optim::Optimizer& optimizer() const { return *optimizer_; }

 private:
  const config::Config& config_;
  const models::BertClassifier& model_;
  Precision precision_;
  amp::GradScaler scaler_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  int64_t steps_ = 0;
};

}  // namespace mixtape::trainer
