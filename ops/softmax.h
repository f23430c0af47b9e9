// What the distributions share: the row formula of the gradient, and how a mask is laid along the rows.
#pragma once

#include <cmath>

#include "autograd/backward.h"
#include "autograd/call.h"
#include "core/factory.h"
#include "ops/reduce.h"

namespace mixtape::ops {

/// log Σ exp(x[i] - largest), largest being that of x: its own term is 1 and is added inside log1p, so that the tiny
/// -log p of a place that holds nearly all of the weight keeps its accuracy. log of the number of ties if all are -inf.
template <class M, class Lanes, class X>
MIXTAPE_HD M log_sum_above(const Lanes& lanes, int64_t n, M largest, const X& x) {
  const M others = lanes.sum(n, [&](int64_t i) {
    const M value = x(i);
    return maths::select(value == largest, M(0), maths::exp(value - largest));
  });
  const M ties = lanes.sum(n, [&](int64_t i) { return maths::select(x(i) == largest, M(1), M(0)); });
  return maths::log1p(others + (ties - M(1)));
}

/// y may be x itself, in all three formulas here.
struct SoftmaxRow {
  template <class Lanes, class M>
  MIXTAPE_HD void operator()(const Lanes& lanes, int64_t n, int64_t, M* y, const M* x) const {
    const M largest = lanes.max(n, [&](int64_t i) { return x[i]; });
    lanes.each(n, [&](int64_t i) { y[i] = maths::exp(x[i] - largest); });
    const M share = M(1) / lanes.sum(n, [&](int64_t i) { return y[i]; });
    lanes.each(n, [&](int64_t i) { y[i] *= share; });
  }
};

/// The same over the places where `visible` is 1; nothing visible gives 0 everywhere.
struct MaskedSoftmaxRow {
  template <class Lanes, class M>
  MIXTAPE_HD void operator()(const Lanes& lanes, int64_t n, int64_t, M* y, const M* x, const M* visible) const {
    const M least = -static_cast<M>(INFINITY);
    lanes.each(n, [&](int64_t i) { y[i] = maths::select(visible[i] > M(0), x[i], least); });
    const M largest = lanes.max(n, [&](int64_t i) { return y[i]; });
    const M shift = maths::select(largest == least, M(0), largest);      // nothing to see: no inf - inf
    lanes.each(n, [&](int64_t i) { y[i] = maths::exp(y[i] - shift); });  // hidden places: e^-inf, exactly 0
    const M total = lanes.sum(n, [&](int64_t i) { return y[i]; });
    const M share = maths::select(total == M(0), M(0), M(1) / total);
    lanes.each(n, [&](int64_t i) { y[i] *= share; });
  }
};

/// dx = y·(dy - Σ dy·y), with the weighted mean taken off twice: the second time it is small, so where one place holds
/// nearly all of the weight its tiny gradient is not lost in the rounding of dy - mean, nor in that of a 16-bit y.
/// Where y is exactly 0 (hidden, or underflowed) so is dx, whatever dy holds there.
struct SoftmaxRowGrad {
  template <class Lanes, class M>
  MIXTAPE_HD void operator()(const Lanes& lanes, int64_t n, int64_t, M* dx, const M* dy, const M* y) const {
    const M mean = lanes.sum(n, [&](int64_t i) { return maths::select(y[i] > M(0), y[i] * dy[i], M(0)); });
    const M rest = lanes.sum(n, [&](int64_t i) { return maths::select(y[i] > M(0), y[i] * (dy[i] - mean), M(0)); });
    lanes.each(n, [&](int64_t i) { dx[i] = maths::select(y[i] > M(0), y[i] * (dy[i] - mean - rest), M(0)); });
  }
};

/// The backward of softmax and masked_softmax from their saved output.
inline Tensor softmax_gradient(autograd::Grads& g, int64_t axis) {
  const Tensor y = g.out(0), dy = g.dy();
  if (g.create_graph()) return mul(y, sub(dy, sum(mul(dy, y), axis, true)));
  const int along = normalize_axis(axis, y.rank(), "softmax");
  const Tensor dx = empty_like(y);
  const View rows = axis_last(y.view(), along);
  kernels::rows(SoftmaxRowGrad{}, rows.shape, kernels::write(axis_last(dx.view(), along)), axis_last(dy.view(), along),
                rows);
  return dx;
}

/// The mask of input 1 must broadcast to x, input 0.
inline void expect_mask_fits(const Infer& in) {
  Shape common;
  in.expect(broadcast_shapes(in.shape(0), in.shape(1), common) && common == in.shape(0), 1,
            message("one that broadcasts to that of x, ", in.shape(0).str()));
}

/// An oracle's mask in the shape of x.
inline Array widened(const Array& mask, const Shape& shape) {
  return rearranged(mask, shape, [&](Dims at) {
    while (at.rank() > mask.shape.rank()) at.erase(0);
    for (int axis = 0; axis < mask.shape.rank(); ++axis) at[axis] %= mask.shape[axis];
    return at;
  });
}

/// Hidden places as -inf, which is how the definition of a masked distribution reads.
inline Array hidden_as_minus_infinity(const Array& x, const Array& mask) {
  const Array wide = widened(mask, x.shape);
  Array y = x;
  for (size_t i = 0; i < y.values.size(); ++i) {
    if (wide.values[i] == 0) y.values[i] = -INFINITY;
  }
  return y;
}

}  // namespace mixtape::ops
