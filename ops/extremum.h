// What maximum and minimum share.
#pragma once

#include "ops/binary.h"

namespace mixtape::ops {

/// The slope of the larger (or smaller) of two: 1 for the one that was taken, 1/2 for both where they are equal, so
/// that the gradients sum to dy and neither order of arguments is preferred. A NaN is what was taken.
template <class T>
MIXTAPE_HD T chosen_slope(bool taken, T own, T other) {
  const T slope = maths::select(taken, T(1), maths::select(own == other, T(0.5), T(0)));
  return maths::select(maths::is_nan(own), T(1), maths::select(maths::is_nan(other), T(0), slope));
}

/// Sample inputs that lie at least 1/8 apart: finite differences may not cross the kink.
inline std::vector<Arg> separated_args(const Shape& a, const Shape& b) {
  std::vector<double> left(static_cast<size_t>(a.numel())), right(static_cast<size_t>(b.numel()));
  for (size_t i = 0; i < left.size(); ++i) left[i] = static_cast<double>(i * 7 % 16) / 4 - 2;
  for (size_t i = 0; i < right.size(); ++i) right[i] = static_cast<double>(i * 5 % 16) / 4 - 1.875;
  const auto with_values = [](const Shape& shape, std::vector<double> values) {
    return shape.numel() == 0 ? arg(shape) : fixed(shape, std::move(values));
  };
  return {with_values(a, std::move(left)), with_values(b, std::move(right))};
}

}  // namespace mixtape::ops
