// A run once more, to be looked at: the same steps, without a directory.
#include "tools/trainer/trainer.h"

namespace mixtape::trainer {

void Trainer::load(const Checkpoint& checkpoint, const RunState& state) {
  load_weights(checkpoint, model().parameters());
  optimizer().load_state(read_tensors(checkpoint, "optimizer.safetensors"));
  take_up(state);
}

void Trainer::replay(int64_t steps) {
  while (result_.steps < steps) {
    const Epoch epoch = current_epoch();
    do {
      take_step(epoch, next_window(epoch));
    } while (result_.steps < steps && result_.steps % plan_.steps_per_epoch != 0);
  }
  settle_steps();
}

StepReport Trainer::try_step(double scale) {
  const amp::ScalerState before = scaler_.state();
  amp::ScalerState trial = before;
  trial.scale.scale = scale;
  scaler_.load_state(trial);
  const Epoch epoch = current_epoch();
  StepReport report = make_gradients(epoch, next_window(epoch));
  report.result = scaler_.abandon(optimizer(), others_);
  const bool skipped = report.result == optim::StepResult::skipped_overflow ||
                       report.result == optim::StepResult::skipped_nonfinite_loss;
  if (skipped) report.nonfinite = scaler_.nonfinite();
  scaler_.load_state(before);
  return report;
}

std::vector<data::Batch> Trainer::next_batches() const {
  const Epoch epoch = current_epoch();
  const data::Window& window = next_window(epoch);
  std::vector<data::Batch> batches;
  for (int64_t micro = 0; micro < window.count; ++micro) {
    batches.push_back(loader_.batch(epoch.batches, static_cast<size_t>(window.first + micro)));
  }
  return batches;
}

}  // namespace mixtape::trainer
