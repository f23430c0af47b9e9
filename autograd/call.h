// The four stages of every op: cast → infer → run → record.
#pragma once

#include "core/context.h"
#include "core/op.h"

namespace mixtape::autograd {

/// Runs `op` on `in` (absent tensors stand for optional inputs that are not given) and returns its outputs.
/// Throws E-DTYPE from stage 1, E-SHAPE from infer, E-BANNED for a banned op under a guard.
Tensors call(const OpSchema& op, const void* attrs, Tensors in);

/// `apply(Gelu{}, {x})`: the same with the type still known.
template <Operator Op>
Tensors apply(const Op& op, Tensors in) {
  return call(schema_of<Op>(), &op, std::move(in));
}

/// Stage 1 alone: casts the data inputs in place as the rule in force says, checks every input's dtype, and returns the
/// data dtype that the op computes for (the 16-bit dtype for `low_out` under a guard).
struct Precision {
  Rule rule;
  DType out;
};
Precision cast_inputs(const OpSchema& op, Tensors& in);

/// Whether a function may use the fused row `Op` now, or has to call the composed ops.
template <Operator Op>
bool may_fuse() {
  const Context& modes = context();
  return !modes.composes(schema_of<Op>()) && (!modes.cast_rule || modes.cast_rule->fuses(schema_of<Op>()));
}

/// Where a tensor came from, for error messages: "the result of linear (in encoder)", "leaf 'w'", "a constant".
std::string origin(const Tensor& tensor);

}  // namespace mixtape::autograd
