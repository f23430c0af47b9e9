// Errors of floats in units of their last place.
#pragma once

#include <cmath>

namespace mixtape::tools {

inline constexpr double float_overflow = 0x1.ffffffp127;  // the tie between the largest float and 2^128

/// The distance between floats around v.
inline double ulp(double v) {
  if (std::abs(v) < 0x1p-126) return 0x1p-149;
  int exponent = 0;
  std::frexp(v, &exponent);
  return std::ldexp(1.0, exponent - 24);
}

/// Error of `got` in units of the last place; infinite where one is NaN or overflows and the other does not.
inline double error_in_ulp(float got, double want) {
  if (std::isnan(want) || std::isnan(got))
    return std::isnan(want) && std::isnan(got) ? 0 : static_cast<double>(INFINITY);
  if (std::abs(want) >= float_overflow || std::isinf(got)) {
    const bool near_edge = std::abs(want) > 0x1.fffff0p127;
    return near_edge && std::abs(static_cast<double>(got)) >= 0x1.fffff0p127 && (got > 0) == (want > 0)
               ? 0
               : static_cast<double>(INFINITY);
  }
  return std::abs(got - want) / ulp(want);
}

}  // namespace mixtape::tools
