// Loops without a gradient that the factory, the engine and the optimizers need; any dtype, any layout.
#pragma once

#include <vector>

#include "core/view.h"

namespace mixtape::kernels {

void fill(const View& out, double value);
/// out = in, converted and rounded once; `in` broadcasts to `out`.
void copy(const View& in, const View& out);
/// out = in × factor, multiplied in f32 (f64 for f64).
void scale(const View& in, double factor, const View& out);
/// out = a·fa + b·fb in f32 (f64), rounded once to `out`, whose dtype is the widest of both. `out` may be `a`.
void add_scaled(const View& a, double fa, const View& b, double fb, const View& out);

/// What one reading pass over a tensor finds out.
struct Census {
  bool finite = true;
  double max_abs = 0;         ///< over finite elements
  double sum_of_squares = 0;  ///< f64 accumulation in a fixed order
};
Census census(const View& in);

}  // namespace mixtape::kernels
