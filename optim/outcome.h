// Outcome: what a step did. Schedules, logs and counters take it instead of guessing from the loss scale.
#pragma once

#include <cstdint>
#include <string_view>

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

/// A handle to a step's result. On the CPU it is known at once; on a device get() would wait for it.
class [[nodiscard]] Outcome {
 public:
  explicit Outcome(StepResult result) : result_(result) {}
  StepResult get() const { return result_; }
  bool applied() const { return get() == StepResult::applied; }
  bool skipped() const { return get() == StepResult::skipped_overflow || get() == StepResult::skipped_nonfinite_loss; }

 private:
  StepResult result_;
};

}  // namespace mixtape::optim
