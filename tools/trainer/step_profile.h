// Where the time of a training step goes, and which products it multiplies: what `mixtape bench step` says beside its
// median.
#pragma once

#include <array>
#include <chrono>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "core/op.h"

namespace mixtape::trainer {

/// Seconds of a class of work.
struct ClassTimes {
  std::string name;
  double forward = 0, backward = 0;
  double sum() const { return forward + backward; }
};

/// Listens to whole steps. A class gets the time between the start and the end of its kernels; what no kernel accounts
/// for (the tape, and the code of the model around its ops) is the phase's own.
class Profile {
 public:
  static constexpr std::string_view batch = "next batch", tape = "the tape", casts = "casts",
                                    clipping = "norm and clipping", optimizer = "optimizer";

  Profile();
  Profile(const Profile&) = delete;  // the observer points here
  Profile& operator=(const Profile&) = delete;
  Observer& observer() { return observer_; }

  /// A step goes on with what `name` says; the first phase of a step begins it.
  void phase(std::string_view name, bool backward = false);
  void end_step();

  int64_t steps() const { return steps_; }
  double seconds() const;  ///< of a step
  /// Seconds of a step by class, the largest first; the classes named above are always there.
  std::vector<ClassTimes> classes() const;
  double seconds_of(std::string_view name) const;
  /// Operations in the executed products of a step whose operands are of `dtype`. Attention's backward multiplies the
  /// scores again, a checkpoint all that it hides.
  double flops(DType dtype) const;
  /// Names of the fused rows that ran.
  std::vector<std::string> fused_rows() const { return {fused_.begin(), fused_.end()}; }

 private:
  using Clock = std::chrono::steady_clock;
  using Times = std::map<std::string, ClassTimes, std::less<>>;

  static void on_call(void* self, const CallEvent& event);
  static void on_enter(void* self, std::string_view work);
  static void on_leave(void* self);
  ClassTimes& times_of(std::string_view name);
  void charge();

  Observer observer_;
  Times times_;
  std::vector<ClassTimes*> running_;  // the phase, then what has been entered and not left
  bool backward_ = false, trains_ = false, recomputes_ = false;
  Clock::time_point last_;
  int64_t steps_ = 0;
  std::array<double, dtype_count> forward_flops_ = {}, backward_flops_ = {};
  std::set<std::string> fused_;
};

}  // namespace mixtape::trainer
