// What tests of ops need: leaves from numbers, gradients as numbers, an autocast guard by the rules of the table.
#pragma once

#include <cmath>
#include <limits>
#include <vector>

#include "autograd/backward.h"
#include "core/context.h"
#include "core/factory.h"
#include "core/op.h"

namespace mixtape::tests {

using Numbers = std::vector<double>;

inline constexpr double infinity = std::numeric_limits<double>::infinity();
inline constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();
inline constexpr DType low_and_f32[] = {DType::f32, DType::bf16, DType::f16};

/// While it lives, ops cast to `low` as their own rows say.
inline ContextGuard autocast(DType low) {
  auto rule = std::make_shared<CastRule>();
  rule->low = low;
  Context modes = context();
  modes.cast_rule = std::move(rule);
  return ContextGuard(std::move(modes));
}

inline Tensor leaf(const Numbers& values, const Shape& shape, DType dtype = DType::f32) {
  return from(values, shape, dtype).set_requires_grad();
}

/// d(output)/d(input), times `seed` where the output has more than one element.
inline Numbers gradient(const Tensor& output, const Tensor& input, const Tensor& seed = {}) {
  return to_vector(autograd::grad({output}, {input}, {}, seed ? Tensors{seed} : Tensors{})[0]);
}

inline bool near(double a, double b, double tolerance) { return std::abs(a - b) <= tolerance; }

}  // namespace mixtape::tests
