// How far a kernel is from its op's exact result on its own inputs, and how far it may be: the bound of the op table's
// runner (ops/optest_checks.h), for tensors that are too large for their Jacobian.
#pragma once

#include <optional>
#include <string>

#include "core/op.h"

namespace mixtape::inspect {

struct OpError {
  std::string op, scope;
  std::string tensor;  ///< "output", or "gradient of x"
  bool backward = false;
  DType dtype = DType::f32;
  double error = 0;     ///< largest |got - exact| / largest |exact|
  double of_bound = 0;  ///< largest |got - exact| / bound, element by element; above 1: outside
  double beyond = 0;    ///< largest |exact| that the format cannot hold and that became inf or NaN; 0: none
  bool outside() const { return !(of_bound <= 1); }
};

/// The worst output of a call. Absent where nothing was computed (views, lookups of a fresh shadow) or nothing can be
/// compared. Elements whose exact value is beyond the format, or not finite, count as right: that is an overflow.
///
/// The bound of an element y is 0.505·eps(out)·|y| + (4·(8+n)·eps(f32)/2 + r·eps(data))·(|y| + R) + the smallest number
/// of the format; n: terms of its sums, r: roundings inside a fused row, R: how far the results move when each input
/// moves by a part of itself, per part, over random signs.
std::optional<OpError> error_of(const CallEvent& event);
/// The worst gradient that a node gave.
std::optional<OpError> error_of(const BackwardEvent& event);

}  // namespace mixtape::inspect
