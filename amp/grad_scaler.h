// GradScaler: scales losses, looks at the gradients, steps or skips, and moves the scale.
//
//   Tensor loss = [&] { amp::Autocast guard(DType::f16); return model.loss(batch); }();
//   autograd::backward(scaler.scale(loss));
//   scaler.unscale(optimizer);  optim::clip_grad_norm(optimizer, 1.0);
//   schedule.advance(scaler.step(optimizer));  scaler.update();
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "amp/scale_state.h"
#include "autograd/backward.h"
#include "optim/optimizer.h"

namespace mixtape::amp {

struct ScalerOptions {
  ScaleOptions scale;
  int64_t max_consecutive_skips = 50;  ///< skipped steps in a row that end the run; 0: never
};

/// Scale 1 for ever, with the same look at every gradient: bf16 and f32.
ScalerOptions unscaled();

/// All that a checkpoint must hold.
struct ScalerState {
  ScaleState scale;
  int64_t rounds = 0;             ///< calls of update() and end_attempt()
  int64_t skipped_overflow = 0;   ///< rounds of these with a skip for an overflow
  int64_t skipped_nonfinite = 0;  ///< rounds with a skip for a loss that was not finite
  int64_t consecutive_skips = 0;  ///< skipped steps in a row, up to now; attempts that ran again are none
  friend bool operator==(const ScalerState&, const ScalerState&) = default;
};

/// One round is: losses are scaled and swept, optimizers are stepped, update() ends it. Gradients carry their scale
/// (core/parameter.h), so the scale may move between sweeps, and several scalers may meet in one leaf.
///
/// Where the loss lies on a device, all of a round happens there and the host waits for none of it: it learns of a
/// state when it asks, and of a diverged run in the very round, because update() looks as seldom as that allows. What
/// needs the host to know a result on its way waits: sweep(), other scalers in a step, abandon(), will_fall().
class GradScaler {
 public:
  explicit GradScaler(const ScalerOptions& options = {});
  GradScaler(const GradScaler&) = delete;
  GradScaler& operator=(const GradScaler&) = delete;

  double scale() const { return state().scale.scale; }  ///< waits for a device
  /// The loss with the scale that its sweep starts from; the loss itself stays as it is. A loss that is not finite is
  /// noted: every step of this round is then a skip, and the scale stays, for no scale cures a forward. Throws
  /// E-SCALER-LOSS unless it is one float element whose dtype holds the scale (f16 ends at 65504).
  autograd::ScaledLoss scale(const Tensor& loss);

  /// Scales the loss, sweeps it and looks: for losses with a scaler each that meet in one optimizer. Gradients that
  /// were not finite before belong to whoever swept them, and say nothing of this scale.
  void sweep(const Tensor& loss, optim::Optimizer& optimizer);

  /// Looks at the optimizer's gradients, once a round; writes nothing. May be left out: step() looks too. Throws
  /// E-SCALER when called again without a new loss, or after step().
  void unscale(optim::Optimizer& optimizer);
  /// Scalers whose losses were swept into the same gradients.
  using Others = std::span<GradScaler* const>;
  /// Applies the gradients or skips, and clears them. A skip leaves parameters, moments and counters as they are.
  /// Others take part if they scaled a loss in this round: one that is not finite makes the step a skip where no scale
  /// moves, they look if they did not since their last loss, and each ends the round by its own update(). Throws
  /// E-SCALER, changing nothing, for a second step of the optimizer in a round.
  optim::Outcome step(optim::Optimizer& optimizer, Others others = {});
  /// Ends the round of one optimizer as if it had not begun, and says what step() would have done: gradients go, the
  /// scales and the counters stay, nonfinite() is as after a skip.
  optim::StepResult abandon(optim::Optimizer& optimizer, Others others = {});
  /// Ends the round: moves the scale by what this scaler found in it. Throws E-SCALER where there is none to end, and
  /// Error(diverged) E-DIVERGED, naming the first tensor that is not finite, after max_consecutive_skips skipped
  /// steps in a row.
  void update();
  /// Ends the round of an attempt whose batches run again: the scale moves as by update(), and the step goes on, so
  /// that it counts for max_consecutive_skips once, when its last attempt is over. Throws E-SCALER as update() does.
  void end_attempt();
  bool in_round() const;  ///< whether update() has something to end
  bool will_fall();       ///< whether update() will lower the scale

  /// What was not finite at the last skip: parameters by name, or "loss".
  const std::vector<std::string>& nonfinite() const;
  const ScalerOptions& options() const { return options_; }
  const ScalerState& state() const;
  /// Between rounds only (E-SCALER); throws E-SCALER-STATE (kind model) for one that cannot be.
  void load_state(const ScalerState& state);

 private:
  // What this round knows of an optimizer.
  struct Visit {
    optim::Optimizer* optimizer;
    bool looked = false;    // since the last loss
    bool overflow = false;  // found by this scaler's own look: another scaler's loss may come into the leaves later
    bool stepped = false;
    bool had_gradients = false;
  };
  Visit& visit(optim::Optimizer& optimizer);
  // An overflow is its own unless the gradients had one before its sweep.
  void look(Visit& visit, const optim::GradientSurvey& found, bool is_own = true);
  optim::StepResult judge(const optim::GradientSurvey& found, Others others);
  void follow(const GradScaler& lead, optim::Optimizer& optimizer, const optim::GradientSurvey& found);
  bool found_overflow() const;
  void forget_round();
  void expect_round() const;
  bool move_scale();
  std::string culprit() const;
  void stop_if_diverged(bool skipped);

  // grad_scaler_there.cpp: rounds on a device
  bool stays_there(const optim::Optimizer& optimizer);
  void go_there(Device device);
  void come_back();
  void read_state() const;
  autograd::ScaledLoss scale_there(const Tensor& loss);
  optim::Outcome step_there(Visit& visit);
  void update_there();

  // What is only there while the device knows more than the host.
  struct There {
    Tensor memory;                              // a ScalerMemory
    Tensor factor;                              // 1/scale of this round; absent before its first loss
    mutable std::vector<optim::Outcome> steps;  // since the host last looked
    mutable optim::RoundFlags round = {};       // as the host last saw them
    mutable int64_t rounds_unseen = 0;          // ended since then
    mutable bool is_seen = true;                // nothing happened since then
  };

  ScalerOptions options_;
  mutable ScalerState state_;
  std::optional<There> there_;
  std::vector<Visit> round_;
  optim::RoundFlags came_back_;  // what this round had found on a device before the host took over
  bool swept_ = false;           // a loss of this round was scaled here
  bool bad_loss_ = false;
  bool skipped_ = false;
  mutable std::vector<std::string> nonfinite_;
};

}  // namespace mixtape::amp
