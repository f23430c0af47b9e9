// Rounds of a scaler whose losses and gradients lie on a device: the same rules (amp/scaler.cu), of which the host
// learns when it asks.
#include <cstring>

#include "amp/scaler_there.h"
#include "core/device_module.h"
#include "core/factory.h"

namespace mixtape::amp {
namespace {

constexpr int64_t most_unseen = 64;  // steps whose records are kept until the host looks

ScalerMemory* memory_of(const Tensor& bytes) { return static_cast<ScalerMemory*>(bytes.view().data); }

}  // namespace

bool GradScaler::in_round() const {
  if (round_.empty() && swept_ && there_) read_state();
  return !round_.empty() || bad_loss_ || (there_ && there_->round.bad_loss);
}

const ScalerState& GradScaler::state() const {
  read_state();
  return state_;
}

const std::vector<std::string>& GradScaler::nonfinite() const {
  read_state();
  return nonfinite_;
}

/// Whether this optimizer's part of the round can happen on its device: all before it did, or there is nothing before.
bool GradScaler::stays_there(const optim::Optimizer& optimizer) {
  if (!optimizer.on_device()) {
    come_back();
    return false;
  }
  const bool begins = round_.size() <= 1 && !swept_ && !bad_loss_;  // the visit that asks is in round_
  if (!there_ && begins) go_there(optimizer.parameters()[0].tensor.device());
  return there_.has_value();
}

void GradScaler::go_there(Device device) {
  if (there_) return;
  const ScalerMemory start{{}, state_};
  const Tensor bytes = empty({sizeof start}, DType::u8);
  std::memcpy(bytes.view().data, &start, sizeof start);
  there_ = There{.memory = to(bytes, device), .factor = {}, .steps = {}};
}

void GradScaler::read_state() const {
  if (!there_ || there_->is_seen) return;
  const Tensor here = to(there_->memory, {});
  ScalerMemory memory;
  std::memcpy(&memory, here.view().data, sizeof memory);
  const bool skipped = memory.state.skipped_overflow != state_.skipped_overflow || memory.round.skipped;
  if (memory.round.bad_loss || memory.state.skipped_nonfinite != state_.skipped_nonfinite) nonfinite_ = {"loss"};
  for (auto step = there_->steps.rbegin(); skipped && step != there_->steps.rend(); ++step) {
    if (!step->skipped()) continue;
    const bool bad_loss = step->get() == optim::StepResult::skipped_nonfinite_loss;
    nonfinite_ = bad_loss ? std::vector<std::string>{"loss"} : step->read()->nonfinite;
    break;
  }
  there_->steps.clear();
  state_ = memory.state;
  there_->round = memory.round;
  there_->rounds_unseen = 0;
  there_->is_seen = true;
}

void GradScaler::come_back() {
  if (!there_) return;
  read_state();
  came_back_ = there_->round;
  bad_loss_ = bad_loss_ || came_back_.bad_loss;
  skipped_ = skipped_ || came_back_.skipped;
  there_.reset();
}

autograd::ScaledLoss GradScaler::scale_there(const Tensor& loss) {
  go_there(loss.device());
  const Tensor seed = empty_like(loss), factor = empty({1}, DType::f64, loss.device());
  device_function<BeginSweepFunction>(loss.device(),
                                      "amp.begin_sweep")({memory_of(there_->memory), loss.view().data, seed.view().data,
                                                          static_cast<double*>(factor.view().data), loss.dtype()});
  if (!there_->factor) there_->factor = factor;  // sweeps of one round share it: their gradients are added as they are
  there_->is_seen = false;
  return {loss, 1.0, seed, there_->factor};
}

optim::Outcome GradScaler::step_there(Visit& visit) {
  const optim::Outcome outcome = visit.optimizer->step(there_->memory);
  visit.looked = visit.stepped = true;
  there_->steps.push_back(outcome);
  there_->is_seen = false;
  return outcome;
}

void GradScaler::update_there() {
  expect_round();
  device_function<EndRoundFunction>(there_->memory.device(), "amp.end_round")(memory_of(there_->memory),
                                                                              options_.scale);
  there_->factor = {};
  there_->is_seen = false;
  ++there_->rounds_unseen;
  const int64_t most = options_.max_consecutive_skips;
  // Skips in a row cannot be more than those that the host knows of and the rounds since then.
  const bool may_be_over = most > 0 && state_.consecutive_skips + there_->rounds_unseen >= most;
  if (may_be_over || std::ssize(there_->steps) >= most_unseen) read_state();
  if (may_be_over) {
    bad_loss_ = nonfinite_ == std::vector<std::string>{"loss"};  // what the culprit is asked by
    stop_if_diverged(state_.consecutive_skips > 0);
  }
  forget_round();
}

}  // namespace mixtape::amp
