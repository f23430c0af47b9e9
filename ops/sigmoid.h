// The logistic function's slopes, shared by the ops that are made of it.
#pragma once

#include "ops/unary.h"

namespace mixtape::ops {

/// σ'(x) = σ(x)·σ(-x), from e^-|x|: no cancellation, no overflow.
template <class T>
MIXTAPE_HD T sigmoid_slope(T x) {
  const T e = maths::exp_minus(maths::abs(x)), root = T(1) + e;
  return e / (root * root);
}

/// σ''(x) = -σ'(x)·tanh(x/2).
template <class T>
MIXTAPE_HD T sigmoid_curvature(T x) {
  return -sigmoid_slope(x) * maths::tanh(T(0.5) * x);
}

/// x within ±limit, where a formula that multiplies by something that has become 0 must not see inf; NaN passes.
template <class T>
MIXTAPE_HD T within(T x, T limit) {
  return maths::select(x > limit, limit, maths::select(x < -limit, -limit, x));
}

}  // namespace mixtape::ops
