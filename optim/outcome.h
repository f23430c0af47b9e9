// Outcome: what a step did. Schedules, logs and counters take it instead of guessing from the loss scale.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>

namespace mixtape::optim {

enum class StepResult : uint8_t {
  applied,
  skipped_overflow,        ///< a gradient was not finite
  skipped_nonfinite_loss,  ///< the forward already was not: no loss scale can cure that
  no_gradients,            ///< nothing to do: frozen parameters, or a loss that reaches none of them
};

/// As in log.jsonl: "applied", "skipped_overflow", "skipped_nonfinite_loss", "no_gradients".
constexpr std::string_view name_of(StepResult result) {
  constexpr std::string_view names[] = {"applied", "skipped_overflow", "skipped_nonfinite_loss", "no_gradients"};
  return names[static_cast<int>(result)];
}

struct RecordHandle;
struct ReadRecord;

/// A handle to a step's result. On the CPU it is known at once; on a device the first question waits for it.
class [[nodiscard]] Outcome {
 public:
  explicit Outcome(StepResult result) : result_(result) {}
  explicit Outcome(RecordHandle record);
  StepResult get() const;
  bool applied() const { return get() == StepResult::applied; }
  bool skipped() const { return get() == StepResult::skipped_overflow || get() == StepResult::skipped_nonfinite_loss; }

  /// Of a step on a device: its record there, and a copy, for which the first call waits; null on the CPU.
  const RecordHandle* record() const;
  const ReadRecord* read() const;

 private:
  struct Pending;
  StepResult result_ = StepResult::applied;
  std::shared_ptr<Pending> pending_;
};

/// The norm of all gradients together, as optim::clip_grad_norm found it: a number. On a device the first reading
/// waits.
class GradientNorm {
 public:
  GradientNorm(double norm) : norm_(norm) {}
  explicit GradientNorm(Outcome look) : look_(std::make_shared<const Outcome>(std::move(look))) {}
  double get() const;
  operator double() const { return get(); }

 private:
  double norm_ = 0;
  std::shared_ptr<const Outcome> look_;
};

}  // namespace mixtape::optim
