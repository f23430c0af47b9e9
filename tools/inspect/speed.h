// Where the time of a step goes in each dtype, what it moves and multiplies, and why 16 bits do not pay where they
// don't.
#pragma once

#include <string>
#include <vector>

#include "tools/config/config.h"
#include "tools/trainer/json.h"
#include "tools/trainer/progress.h"

namespace mixtape::inspect {

enum class WorkClass { products, other_math, casts, optimizer, waiting };
inline constexpr int work_classes = 5;
std::string_view name_of(WorkClass work);

/// A step in one dtype.
struct SpeedRun {
  std::string amp;    ///< "off", "bf16", "fp16"
  int64_t steps = 0;  ///< that were measured; all figures are of the fastest
  double seconds = 0;
  double class_seconds[work_classes] = {};
  double flops_wide = 0, flops_low = 0;  ///< in products, by the dtype of their operands
  int64_t bytes = 0, cast_bytes = 0;     ///< moved by ops, both ways; of these by casts
  int64_t rows = 0, tokens = 0;          ///< of the measured batch
  std::string cast_cause;  ///< the op whose override makes the largest part of the casts, and its rule; "": none
  double cause_bytes = 0;  ///< that this override alone adds

  double share(WorkClass work) const { return class_seconds[static_cast<int>(work)] / seconds; }
  /// Of the time: everything but products.
  double memory_share() const { return 1 - share(WorkClass::products); }
  double low_share() const { return flops_low / (flops_wide + flops_low); }
  double cast_share() const { return bytes > 0 ? static_cast<double>(cast_bytes) / static_cast<double>(bytes) : 0; }
};

struct Speed {
  std::vector<SpeedRun> runs;
  std::vector<std::string> verdicts;  ///< a sentence for each dtype of 16 bits; without "off" none can be had
};

/// What the machine can do; apart, so that verdicts can be tested.
struct SpeedMachine {
  bool native_bf16 = false;  ///< the matrix engine multiplies bf16 without going through f32
};

/// Measures a step of the configuration in each of `amps` ("off", "bf16", "fp16"), after a warm-up of two: the same
/// batch in each, as often, and the fastest counts.
Speed measure_speed(const std::string& file, const std::vector<std::string>& sets, const std::vector<std::string>& amps,
                    trainer::Progress& progress);
/// "bf16 does not pay: …" from the figures of both, or that it does.
std::string speed_verdict(const SpeedRun& off, const SpeedRun& low, const SpeedMachine& machine);

std::string speed_text(const Speed& speed);
trainer::Json speed_json(const Speed& speed);

}  // namespace mixtape::inspect
