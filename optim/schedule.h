// The learning rate as a pure function of the applied updates: there is no scheduler state that could drift.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "optim/optimizer.h"
#include "optim/schedule_formula.h"

namespace mixtape::optim {

std::string_view name_of(ScheduleKind kind);
bool parse_schedule(std::string_view name, ScheduleKind& out);  ///< false when the name is unknown

/// W = ceil(ratio·T - 1e-9): 0.1 of 1,119 is 112, 0.07 of 100 is 7 although 0.07·100 > 7 in doubles.
int64_t warmup_updates(double ratio, int64_t total);

/// The rate of the update after `updates` applied ones: base·(u+1)/W for u < W, then down from base at u = W:
/// linear base·(T-u)/max(1, T-W), cosine base·(1 + cos(π·(u-W)/max(1, T-W)))/2, constant base. 0 from u = T on (but
/// constant). The first update has base/W, not 0: a step at rate 0 is a wasted one.
double lr_at(const SchedulePlan& plan, int64_t updates);

/// "warm-up 224 of 2235 steps, then linear to 0".
std::string describe(const SchedulePlan& plan);

/// Keeps an optimizer's rate where the plan wants it.
class Schedule {
 public:
  /// Sets the first rate. Throws E-SCHEDULE (kind config) for W > T, T < 0 or a base rate that is not finite and >= 0.
  Schedule(Optimizer& optimizer, const SchedulePlan& plan);
  /// Moves on only if the step was applied. On a device it happens there, and nothing waits but who asks below.
  void advance(const Outcome& outcome);
  void restore(int64_t updates);  ///< from a checkpoint

  double lr() const { return lr_at(plan_, updates()); }  ///< of the coming update
  int64_t updates() const;
  const SchedulePlan& plan() const { return plan_; }

 private:
  Optimizer& optimizer_;
  SchedulePlan plan_;
  mutable int64_t updates_ = 0;
  mutable bool known_ = true;  // updates_ is what stands in updates_there_
  Tensor updates_there_;       // i64, one; absent: the host counts
};

}  // namespace mixtape::optim
