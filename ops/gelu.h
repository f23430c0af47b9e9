// The erf-GELU formula, shared by its op and by fused rows.
#pragma once

#include "core/maths.h"

namespace mixtape::ops {

template <class T>
MIXTAPE_HD T gelu_value(T x) {
  return x * maths::normal_cdf(x);
}

/// Φ(x) + x·φ(x). The argument is clamped where φ is already 0 in f32: no 0·inf for any finite x.
template <class T>
MIXTAPE_HD T gelu_slope(T x) {
  const T a = maths::min(maths::abs(x), T(40));
  const T density = T(0.39894228040143267794) * maths::exp(T(-0.5) * a * a);
  return maths::normal_cdf(x) + maths::select(x < T(0), -a, a) * density;
}

}  // namespace mixtape::ops
