// What a device knows of a step: the host hands over a table of parameters and learns what became of them when it asks.
// Everything here lies in device memory.
#pragma once

#include <cstdint>

#include "core/dtype.h"
#include "optim/outcome.h"

namespace mixtape::optim {

/// One parameter that has a gradient. Contiguous, all of `count` elements; gradient and states f32.
struct TableRow {
  void* parameter = nullptr;
  const float* raw = nullptr;
  float* state[2] = {};
  void* shadow = nullptr;          ///< its fresh 16-bit twin, written along; or null
  bf16* rest = nullptr;            ///< what earlier roundings took (Rounding::compensated); or null
  const double* factor = nullptr;  ///< Gradient::factor, or null
  int64_t* steps = nullptr;        ///< applied ones of this parameter
  double multiplier = 1, weight_decay = 0, lr_multiplier = 1;
  int64_t count = 0;
  int64_t first_block = 0;  ///< of all blocks of the pass
  uint32_t draw = 0;        ///< RngCoordinates::draw of stochastic rounding
  DType dtype = DType::f32, shadow_dtype = DType::bf16;
  friend bool operator==(const TableRow&, const TableRow&) = default;
};
inline constexpr int64_t block_elements = 4096;

struct StepTable {
  const TableRow* rows = nullptr;
  int count = 0;
  int64_t blocks = 0;
};

/// Whether a round of losses and steps went well; amp::GradScaler keeps one.
struct RoundFlags {
  uint32_t bad_loss = 0;   ///< a loss was not finite: nothing is applied
  uint32_t skipped = 0;    ///< a step was, for an overflow
  uint32_t overflow = 0;   ///< somebody looked, and a gradient was not finite
  uint32_t gradients = 0;  ///< somebody looked, and there were some
  double scale = 1;        ///< of the losses
};

/// What became of a step, or what a look found. A byte for each row of the table follows: 1, its gradient is not
/// finite.
struct StepRecord {
  double norm = 0;                ///< of all true gradients together, as they were when somebody looked
  double lr = 0;                  ///< of the step
  double scale = 1;               ///< of its losses
  uint64_t wanted = 0, lost = 0;  ///< UpdateCount of an applied step
  uint32_t nonfinite = 0;         ///< some gradient is not finite, before or after its multiplier
  StepResult result = StepResult::applied;
};

/// What a verdict is for.
enum class Judging : uint8_t {
  look,    ///< nothing is counted
  decide,  ///< an applied step counts
  force,   ///< it is applied, whatever its gradients are
};

/// UpdateCount on a device.
struct UpdateCounts {
  unsigned long long wanted = 0, lost = 0;
};

}  // namespace mixtape::optim
