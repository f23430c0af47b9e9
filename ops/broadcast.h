// The gradient of an input that was broadcast.
#pragma once

#include "autograd/backward.h"
#include "core/factory.h"
#include "core/kernels/loops.h"

namespace mixtape::ops {

/// formula(in…) over the shape of dy, summed down to the shape of input i: its gradient, rounded once.
template <class Formula, class... In>
Tensor reduced_gradient(const autograd::Grads& g, int i, const Formula& formula, const In&... in) {
  const Shape& full = g.dy().shape();
  const Tensor out = empty(g.meta(i).shape, g.meta(i).dtype, g.dy().device());
  if (out.shape() == full)
    kernels::map(formula, out.view(), in.view()...);
  else
    kernels::fold(formula, full, out.view(), in.view()...);
  return out;
}

}  // namespace mixtape::ops
