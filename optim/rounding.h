// How new values become the bytes of a 16-bit parameter.
#pragma once

#include <atomic>

#include "core/hd.h"
#include "core/rng.h"
#include "core/tensor.h"

namespace mixtape::optim {

enum class Rounding : uint8_t {
  nearest,      ///< an update below half a step of the grid is lost
  stochastic,   ///< bf16: up or down by chance, right on average (Gupta et al., "Deep learning with limited numerical
                ///< precision", 2015)
  compensated,  ///< bf16: what rounding took is kept, in bf16 too, and comes back with the next update (Kahan, 1965;
                ///< Zamirai et al., "Revisiting BFloat16 training", 2020)
};

/// `value` as one of the two bf16 beside it, the farther one as often as it is near: `draw` are 16 random bits. Never
/// inf for a finite value.
MIXTAPE_HD inline bf16 to_bf16_stochastic(float value, uint16_t draw) {
  constexpr uint32_t exponent = 0x7f800000u;
  const uint32_t bits = convert_bits::of(value), up = bits + draw;
  if ((bits & exponent) == exponent) return to_bf16(value);
  return bf16{static_cast<uint16_t>(((up & exponent) == exponent ? bits : up) >> 16)};
}

/// Of one step, over all elements of 16-bit parameters: how many had a gradient, and how many of these were not moved
/// by it, in their bytes or in what compensates them.
struct UpdateCount {
  std::atomic<int64_t> wanted = 0, lost = 0;
};

/// How one pass over one parameter stores. The default does nothing but round to nearest.
struct Storing {
  Rounding rounding = Rounding::nearest;
  RngCoordinates draws = {};     ///< stochastic: element i of the parameter draws at i
  Tensor compensation = {};      ///< compensated: bf16, of the parameter's shape
  UpdateCount* count = nullptr;  ///< null: nobody asks

  /// Whether a block has to pass through the two functions below.
  bool special() const { return rounding != Rounding::nearest || count; }
  /// Adds to n values from element `start` on what earlier roundings took from them.
  void recall(int64_t start, int64_t n, float* values) const;
  /// Rounds values into `target`, which is contiguous and of 16 bits. `raw` is the gradient that moved them.
  void store(const float* values, const float* raw, const View& target, int64_t start, int64_t n) const;
};

}  // namespace mixtape::optim
