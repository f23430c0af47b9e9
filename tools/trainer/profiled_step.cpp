#include "tools/trainer/profiled_step.h"

#include "amp/autocast.h"
#include "core/context.h"
#include "optim/clip.h"

namespace mixtape::trainer {

ProfiledStep::ProfiledStep(const config::Config& config, const models::BertClassifier& model)
    : config_(config),
      model_(model),
      precision_(make_precision(config)),
      scaler_(precision_.scaler),
      optimizer_(make_optimizer(config, model.parameters())) {}

void ProfiledStep::take(uint64_t seed, const std::function<data::Batch()>& next, Profile* profile,
                        const std::function<void(const Tensor& loss)>& at_loss) {
  const auto phase = [&](std::string_view name, bool backward) {
    if (profile != nullptr) profile->phase(name, backward);
  };
  phase(Profile::batch, false);
  const RngGuard rng({.seed = seed, .stream = rng_stream::dropout, .step = static_cast<uint32_t>(++steps_)});
  const data::Batch batch = data::to(next(), model_.device());
  phase(Profile::tape, false);
  const Tensor loss = [&] {
    const amp::Autocast autocast(precision_.rule);
    return model_.loss(batch, static_cast<double>(batch.rows), true);
  }();
  if (at_loss) at_loss(loss);
  phase(Profile::tape, true);
  autograd::backward(scaler_.scale(loss));
  phase(Profile::clipping, true);
  scaler_.unscale(*optimizer_);
  (void)optim::clip_grad_norm(*optimizer_, config_.trainer.max_grad_norm);
  phase(Profile::optimizer, true);
  (void)scaler_.step(*optimizer_).get();
  phase(Profile::tape, true);
  scaler_.update();
  if (profile != nullptr) profile->end_step();
}

}  // namespace mixtape::trainer
