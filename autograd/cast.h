// cast: the one op that the pipeline itself needs. Recorded like any other, so an f32 weight gets an f32 gradient.
#pragma once

#include "core/op.h"

namespace mixtape::autograd {

/// `x` as `dtype`, rounded once; `x` itself when it has that dtype. A parameter cast to 16 bits aliases its shadow.
Tensor cast(const Tensor& x, DType dtype);

/// A parameter as an op sees it that keeps parameters in f32: widened where it is stored in 16 bits, else with the
/// values that it has in `low`. Its gradient is f32 either way, and not rounded.
Tensor parameter_through(const Tensor& parameter, DType low);

/// a + b in the wider dtype: how gradients meet under create_graph, where a core loop would cut the graph.
Tensor accumulate(const Tensor& a, const Tensor& b);

/// True for the row that stage 1 must leave alone.
bool is_cast(const OpSchema& op);

}  // namespace mixtape::autograd
