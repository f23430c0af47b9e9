// What dropout and the fused rows with a dropout share: the formula, the draw, and the places of rows.
#pragma once

#include <cmath>

#include "core/context.h"
#include "core/kernels/layout.h"
#include "core/kernels/loops.h"
#include "core/op.h"

namespace mixtape::ops {

using kernels::as_column;

/// Keeps x where a 16-bit draw is at least round(p·65536), as x/(1-p) multiplied in M; 0 elsewhere, whatever x is:
/// p = 1 multiplies nothing by infinity.
struct DropoutFormula {
  double threshold, scale;
  explicit DropoutFormula(double p) : threshold(std::round(p * 65536.0)), scale(p < 1.0 ? 1.0 / (1.0 - p) : 0.0) {}
  template <class M>
  MIXTAPE_HD M operator()(M x, M draw) const {
    return maths::select(draw >= static_cast<M>(threshold), x * static_cast<M>(scale), M(0));
  }
};

/// The place of the next mask; a forward counts its draws.
inline RngCoordinates next_draw() {
  const RngCoordinates at = context().rng;
  ++context().rng.draw;
  return at;
}

/// For oracles: what becomes of x at place `element` of the mask.
inline double drop_exactly(double x, double p, const RngCoordinates& at, uint64_t element) {
  const bool kept = static_cast<double>(random16(at, element)) >= std::nearbyint(p * 65536.0);
  return kept ? x / (1.0 - p) : 0.0;
}

/// Input `index` numbers the rows of input 0: its shape is that of x without the last axis.
inline void expect_places(const Infer& in, int index) {
  in.expect(in.shape(0).rank() >= 1, 0, "at least one axis");
  Shape rows = in.shape(0);
  rows.erase(rows.rank() - 1);
  in.expect(in.shape(index) == rows, index, rows.str() + ", a row number for each row of x");
}

}  // namespace mixtape::ops
