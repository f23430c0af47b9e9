// The dropout formula, shared by its op and by fused rows.
#pragma once

#include <cmath>

#include "core/maths.h"

namespace mixtape::ops {

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

}  // namespace mixtape::ops
