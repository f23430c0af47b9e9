// An op once more in f64, from what it got: what it should have given, without the roundings of the ops before it.
#pragma once

#include <cstdint>

#include "core/op.h"

namespace mixtape::inspect {

/// Moves every float by ±delta of itself, the sign drawn: how strongly results follow small errors of what they are
/// made of. delta 0 moves nothing.
struct Nudge {
  double delta = 0;
  uint64_t seed = 0;
};

/// The outputs of a call in f64, from its inputs after the casts. Empty for ops that are no row of the table, and for
/// those without float inputs.
Tensors exact_outputs(const CallEvent& event, const Nudge& nudge = {});

/// The gradients of a node's inputs in f64, from the gradients that came in and what the node had saved; absent where
/// none is due. A table's gradient is whole here. Empty for what is no row of the table.
Tensors exact_gradients(const BackwardEvent& event, const Nudge& nudge = {});

}  // namespace mixtape::inspect
