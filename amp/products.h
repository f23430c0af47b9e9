// How much a call multiplies: operations in the products of an op, from the shapes that it got.
#pragma once

#include "core/op.h"

namespace mixtape::amp {

/// Multiplications and additions of an op's products: on the way there, and on the way back.
struct Products {
  double forward = 0, backward = 0;
};
/// Whether the forward of an op adds up elements of one input, so that the dtype of its sums matters. Always f32 or
/// wider.
bool sums(const OpSchema& op);

/// 0 for ops without products. Attention's backward multiplies the scores again.
Products products_of(const CallEvent& event);

}  // namespace mixtape::amp
