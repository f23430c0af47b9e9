#include "tools/inspect/at_step.h"

#include <algorithm>

#include "amp/autocast.h"
#include "autograd/backward.h"
#include "core/error.h"
#include "tools/inspect/replay.h"
#include "tools/trainer/checkpoint.h"

namespace mixtape::inspect {
namespace {

/// While it lives, parameters are f32; afterwards they are as they were, bit for bit, and without gradients.
class Borrowed {
 public:
  explicit Borrowed(NamedTensors parameters) : parameters_(std::move(parameters)) {
    for (const NamedTensor& p : parameters_) {
      was_.push_back(p.tensor.dtype());
      if (is_low(p.tensor.dtype())) p.tensor.store_as(DType::f32);
    }
  }
  ~Borrowed() {
    for (size_t i = 0; i < was_.size(); ++i) {
      parameters_[i].tensor.leaf().gradient = {};
      if (parameters_[i].tensor.dtype() != was_[i]) parameters_[i].tensor.store_as(was_[i]);
    }
  }
  Borrowed(const Borrowed&) = delete;
  Borrowed& operator=(const Borrowed&) = delete;

 private:
  NamedTensors parameters_;
  std::vector<DType> was_;
};

Origin visit(Replay replay, const std::vector<int64_t>& steps, const Visit& see) {
  for (const int64_t step : steps) {
    replay.go_to(step);
    const Borrowed borrowed(replay.model().parameters());
    see(PausedStep({.config = replay.config(),
                    .model = replay.model(),
                    .step = step,
                    .loss_scale = replay.loss_scale(),
                    .batches = replay.next_batches()}));
  }
  return {.checkpoint = replay.from_checkpoint()};
}

/// Steps that a run has not done yet would come out as it would do them; who names one has most likely mistyped it.
void expect_done(const std::string& dir, const LoggedRun& log, int64_t step) {
  const trainer::Checkpoints::Found newest = trainer::Checkpoints(dir).newest();
  const int64_t done = std::max(newest.checkpoint ? newest.checkpoint->manifest.step : 0, log.last_step);
  if (step > done)
    fail(ErrorKind::config, "E-REPLAY-STEP", message("step ", step, ": the run in ", dir, " ends at step ", done));
}

}  // namespace

int64_t PausedStep::rows() const {
  int64_t rows = 0;
  for (const data::Batch& batch : parts_.batches) rows += batch.rows;
  return rows;
}

double PausedStep::run(const std::shared_ptr<const CastRule>& rule, double scale) const {
  for (const NamedTensor& parameter : model().parameters()) parameter.tensor.leaf().gradient = {};
  const auto items = static_cast<double>(rows());
  double sum = 0;
  for (size_t micro = 0; micro < parts_.batches.size(); ++micro) {
    const RngGuard rng({.seed = static_cast<uint64_t>(config().trainer.seed),
                        .stream = rng_stream::dropout,
                        .step = static_cast<uint32_t>(step()),
                        .micro_step = static_cast<uint32_t>(micro)});
    const Tensor loss = [&] {
      const amp::Autocast autocast(rule);
      return model().loss(parts_.batches[micro], items, true);
    }();
    sum += loss.item();
    autograd::backward(autograd::ScaledLoss{loss, scale});
  }
  return sum;
}

Origin visit_steps(const config::Config& config, const std::vector<int64_t>& steps, trainer::Progress& progress,
                   const Visit& see) {
  return visit(Replay::of_config(config, progress), steps, see);
}

Origin visit_steps_of_run(const std::string& dir, const std::vector<int64_t>& steps, trainer::Progress& progress,
                          const Visit& see) {
  Replay replay = Replay::of_run(dir, progress);
  expect_done(dir, replay.log(), steps.back());
  return visit(std::move(replay), steps, see);
}

}  // namespace mixtape::inspect
