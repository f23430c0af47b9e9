// The erf-GELU formula, shared by its op and by fused rows.
#pragma once

#include "core/maths.h"

namespace mixtape::ops {

/// x·Φ(x). Where Φ is 0 the argument is clamped, so that -inf gives its limit 0, not inf·0.
template <class T>
MIXTAPE_HD T gelu_value(T x) {
  return maths::select(x < T(-40), T(-40), x) * maths::normal_cdf(x);
}

/// Φ(x) + x·φ(x), both from one exponential; clamped where φ is 0: no inf·0 for any x.
template <class T>
MIXTAPE_HD T gelu_slope(T x) {
  const maths::NormalTail<T> normal = maths::normal_tail(x);
  const T a = maths::select(x > T(40), T(40), maths::select(x < T(-40), T(-40), x));
  const T cdf = maths::select(x > T(0), T(1) - normal.tail, normal.tail);
  return maths::fma(a * T(0.39894228040143267794), normal.gauss, cdf);
}

/// φ(x)·(2 - x²).
template <class T>
MIXTAPE_HD T gelu_curvature(T x) {
  const T a = maths::min(maths::abs(x), T(40));
  return T(0.39894228040143267794) * maths::normal_tail(x).gauss * (T(2) - a * a);
}

}  // namespace mixtape::ops
