#include "amp/grad_scaler.h"

#include <algorithm>
#include <cmath>

#include "core/kernels/basic.h"

namespace mixtape::amp {
namespace {

using optim::Outcome;
using optim::StepResult;

[[noreturn]] void refuse(const std::string& what) { fail(ErrorKind::internal, "E-SCALER", "scaler: " + what); }

}  // namespace

ScalerOptions unscaled() {
  ScalerOptions options;
  options.scale.dynamic = false;
  options.scale.init = 1;
  return options;
}

GradScaler::GradScaler(const ScalerOptions& options) : options_(options) {
  check(options_.scale);
  state_.scale = first_state(options_.scale);
}

autograd::ScaledLoss GradScaler::scale(const Tensor& loss) {
  const bool starts_round = round_.empty() && !swept_ && !bad_loss_;
  const bool there = !loss.device().is_cpu() && (there_ || starts_round);
  if (loss.numel() != 1 || !is_float(loss.dtype())) {
    fail(ErrorKind::internal, "E-SCALER-LOSS",
         message("scaler: expected a loss of one float element, got ", name_of(loss.dtype()), loss.shape().str()));
  }
  if (loss.dtype() == DType::f16 && scale() > -lowest(DType::f16)) {
    fail(ErrorKind::internal, "E-SCALER-LOSS",
         message("scaler: the loss is f16, which cannot hold the scale ", scale(),
                 ": let the loss come back in f32, as every loss does under an autocast guard"));
  }
  swept_ = true;
  for (Visit& seen : round_) seen.looked = false;
  if (there) return scale_there(loss);
  if (!std::isfinite(loss.item())) {
    bad_loss_ = true;
    nonfinite_ = {"loss"};
  }
  return {loss, scale()};
}

GradScaler::Visit& GradScaler::visit(optim::Optimizer& optimizer) {
  const auto found =
      std::find_if(round_.begin(), round_.end(), [&](const Visit& v) { return v.optimizer == &optimizer; });
  if (found != round_.end()) return *found;
  round_.push_back({.optimizer = &optimizer});
  return round_.back();
}

void GradScaler::look(Visit& visit, const optim::GradientSurvey& found, bool is_own) {
  visit.looked = true;
  visit.overflow = visit.overflow || (is_own && !found.finite);
  visit.had_gradients = visit.had_gradients || found.count > 0;
}

void GradScaler::sweep(const Tensor& loss, optim::Optimizer& optimizer) {
  const bool finite_before = optimizer.survey().finite;
  autograd::backward(scale(loss));
  come_back();
  Visit& here = visit(optimizer);
  const optim::GradientSurvey found = optimizer.survey();
  look(here, found, finite_before);
}

void GradScaler::unscale(optim::Optimizer& optimizer) {
  Visit& here = visit(optimizer);
  if (here.stepped) refuse("unscale after step: this round is over for the optimizer, call update()");
  if (here.looked) refuse("unscale twice for one optimizer, without a loss in between: the gradients are as they were");
  if (stays_there(optimizer)) {
    (void)optimizer.look(there_->memory);
    here.looked = true;
    there_->is_seen = false;
    return;
  }
  const optim::GradientSurvey found = optimizer.survey();
  look(here, found);
}

Outcome GradScaler::step(optim::Optimizer& optimizer, Others others) {
  Visit& here = visit(optimizer);
  if (here.stepped) refuse("step twice for one optimizer without an update() in between");
  if (others.empty() && stays_there(optimizer)) return step_there(here);
  come_back();
  for (GradScaler* other : others) other->come_back();
  const optim::GradientSurvey found = optimizer.survey();  // read again only if somebody changed a gradient since
  if (!here.looked) look(here, found);
  here.stepped = true;
  const StepResult result = judge(found, others);
  skipped_ = skipped_ || result == StepResult::skipped_overflow;
  for (GradScaler* other : others) other->follow(*this, optimizer, found);
  if (result == StepResult::applied)
    optimizer.apply();
  else
    optimizer.clear_gradients();
  return Outcome(result);
}

// What became of the step is the same for all whose losses are in it; what each found is its own.
void GradScaler::follow(const GradScaler& lead, optim::Optimizer& optimizer, const optim::GradientSurvey& found) {
  if (!swept_) return;
  Visit& here = visit(optimizer);
  if (!here.looked) look(here, found);
  here.stepped = true;
  bad_loss_ = lead.bad_loss_;
  skipped_ = lead.skipped_;
  nonfinite_ = lead.nonfinite_;
}

StepResult GradScaler::judge(const optim::GradientSurvey& found, Others others) {
  for (const GradScaler* other : others) {
    if (!other->bad_loss_) continue;
    bad_loss_ = true;
    nonfinite_ = other->nonfinite_;
  }
  if (bad_loss_) return StepResult::skipped_nonfinite_loss;
  if (found.count == 0) return StepResult::no_gradients;
  if (found.finite) return StepResult::applied;
  nonfinite_ = found.nonfinite;
  return StepResult::skipped_overflow;
}

StepResult GradScaler::abandon(optim::Optimizer& optimizer, Others others) {
  come_back();
  for (GradScaler* other : others) other->come_back();
  const StepResult result = judge(optimizer.survey(), others);
  optimizer.clear_gradients();
  forget_round();
  for (GradScaler* other : others) other->forget_round();
  return result;
}

void GradScaler::forget_round() {
  round_.clear();
  swept_ = bad_loss_ = skipped_ = false;
  came_back_ = {};
}

bool GradScaler::found_overflow() const {
  return came_back_.overflow || std::any_of(round_.begin(), round_.end(), [](const Visit& v) { return v.overflow; });
}

bool GradScaler::will_fall() {
  come_back();
  return !bad_loss_ && found_overflow() && next(options_.scale, state_.scale, true).scale < scale();
}

void GradScaler::expect_round() const {
  if (!in_round()) refuse("update without a step since the last one: call it once a round, at its end");
}

// What the round found, but for the number of skips in a row. Returns whether its step was skipped.
bool GradScaler::move_scale() {
  expect_round();
  const bool skipped = skipped_ || bad_loss_, overflow = found_overflow();
  const bool gradients =
      came_back_.gradients || std::any_of(round_.begin(), round_.end(), [](const Visit& v) { return v.had_gradients; });
  if (!bad_loss_ && (overflow || (gradients && !skipped))) {
    state_.scale = next(options_.scale, state_.scale, overflow);
  }
  ++state_.rounds;
  if (skipped) ++(bad_loss_ ? state_.skipped_nonfinite : state_.skipped_overflow);
  if (!skipped && gradients) state_.consecutive_skips = 0;
  return skipped;
}

void GradScaler::end_attempt() {
  come_back();
  (void)move_scale();
  forget_round();
}

void GradScaler::update() {
  if (there_) return update_there();
  const bool skipped = move_scale();
  if (skipped) ++state_.consecutive_skips;
  stop_if_diverged(skipped);
  forget_round();
}

void GradScaler::stop_if_diverged(bool skipped) {
  const int64_t most = options_.max_consecutive_skips;
  if (most == 0 || !skipped || state_.consecutive_skips < most) return;
  const std::string why = culprit();
  forget_round();
  fail(ErrorKind::diverged, "E-DIVERGED",
       message("training diverged: ", state_.consecutive_skips, " steps in a row were not finite (loss scale ", scale(),
               "); ", why));
}

// A parameter that is not finite itself explains all the rest, so it is looked for first.
std::string GradScaler::culprit() const {
  for (const Visit& seen : round_) {
    for (const auto& [name, tensor] : seen.optimizer->parameters()) {
      if (!kernels::census(tensor.view()).finite) return message("parameter '", name, "' itself holds inf or NaN");
    }
  }
  if (bad_loss_) return "the loss itself is inf or NaN: look at the forward, no loss scale can cure it";
  // Parameters stand in the order of the forward, and a sweep goes the other way.
  return message("the first gradient of the sweep that is not finite is that of '", nonfinite_.back(), "', one of ",
                 static_cast<int64_t>(nonfinite_.size()));
}

void GradScaler::load_state(const ScalerState& state) {
  come_back();
  if (!round_.empty()) refuse("load_state within a round: call update() first");
  const bool sound = std::isfinite(state.scale.scale) && state.scale.scale > 0 && state.scale.clean >= 0 &&
                     state.scale.hysteresis_left >= 0 && state.rounds >= 0 && state.consecutive_skips >= 0;
  if (!sound) {
    fail(ErrorKind::model, "E-SCALER-STATE",
         message("scaler state: scale ", state.scale.scale, ", ", state.scale.clean, " clean updates, ", state.rounds,
                 " rounds: expected a positive scale and counters >= 0"));
  }
  state_ = state;
  there_.reset();
}

}  // namespace mixtape::amp
