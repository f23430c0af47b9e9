// The only elementary functions that formulas use, host and device.
//
// Unqualified exp(float) is ::exp(double) on the host, and libm calls stop a loop from being vectorised; so the float
// versions here are branch-free polynomials (error bounds are asserted in tests/test_maths.cpp), the double versions,
// which only gradcheck sees, are the standard library's.
#pragma once

#include <cmath>
#include <cstdint>

#include "core/hd.h"

namespace mixtape::maths {

MIXTAPE_HD inline float select(bool condition, float yes, float no) { return condition ? yes : no; }
MIXTAPE_HD inline double select(bool condition, double yes, double no) { return condition ? yes : no; }

MIXTAPE_HD inline float fma(float a, float b, float c) { return __builtin_fmaf(a, b, c); }
MIXTAPE_HD inline double fma(double a, double b, double c) { return __builtin_fma(a, b, c); }
MIXTAPE_HD inline float abs(float x) { return __builtin_fabsf(x); }
MIXTAPE_HD inline double abs(double x) { return __builtin_fabs(x); }
MIXTAPE_HD inline float sqrt(float x) { return __builtin_sqrtf(x); }
MIXTAPE_HD inline double sqrt(double x) { return __builtin_sqrt(x); }
template <class T>
MIXTAPE_HD inline T rsqrt(T x) {
  return T(1) / sqrt(x);
}
template <class T>
MIXTAPE_HD inline bool is_nan(T x) {
  return x != x;
}
/// NaN in either argument gives NaN, as NumPy's maximum.
template <class T>
MIXTAPE_HD inline T max(T a, T b) {
  return a > b || is_nan(a) ? a : b;
}
template <class T>
MIXTAPE_HD inline T min(T a, T b) {
  return a < b || is_nan(a) ? a : b;
}

/// e^x: x = k·ln2 + r, |r| <= ln2/2, a degree-6 polynomial for e^r (minimax, relative error below 2^-24), scaled by 2^k
/// in two halves, so that subnormal results are right too.
MIXTAPE_HD inline float exp(float x) {
  const float clamped = select(x > 89.0f, 89.0f, select(x < -104.0f, -104.0f, x));  // NaN falls through
  const float shifted = clamped * 1.44269504f + 12582912.0f;                        // 1.5·2^23: rounds to an integer
  const float k = shifted - 12582912.0f;
  float r = fma(k, -0.693145752f, clamped);  // ln2 in two parts (Cody and Waite)
  r = fma(k, -1.42860677e-6f, r);
  float p = 1.9875691500e-4f;  // the coefficients of Cephes' expf
  p = fma(p, r, 1.3981999507e-3f);
  p = fma(p, r, 8.3334519073e-3f);
  p = fma(p, r, 4.1665795894e-2f);
  p = fma(p, r, 1.6666665459e-1f);
  p = fma(p, r, 5.0000001201e-1f);
  p = fma(p * r, r, r) + 1.0f;
  const int32_t n = static_cast<int32_t>(select(is_nan(k), 0.0f, k)), low = n >> 1, high = n - low;
  const float a = __builtin_bit_cast(float, (low + 127) << 23), b = __builtin_bit_cast(float, (high + 127) << 23);
  return p * a * b;
}
MIXTAPE_HD inline double exp(double x) { return __builtin_exp(x); }

MIXTAPE_HD inline float log(float x) { return __builtin_logf(x); }
MIXTAPE_HD inline double log(double x) { return __builtin_log(x); }
MIXTAPE_HD inline float log1p(float x) { return __builtin_log1pf(x); }
MIXTAPE_HD inline double log1p(double x) { return __builtin_log1p(x); }
MIXTAPE_HD inline float pow(float x, float y) { return __builtin_powf(x, y); }
MIXTAPE_HD inline double pow(double x, double y) { return __builtin_pow(x, y); }

/// 1 / (1 + e^-x), from e^-|x|, so that nothing overflows and the small side keeps its relative accuracy.
template <class T>
MIXTAPE_HD inline T sigmoid(T x) {
  const T e = exp(-abs(x));
  return select(x >= T(0), T(1), e) / (T(1) + e);
}

/// tanh: an odd polynomial where 1 - 2/(e^2x + 1) would cancel, that expression elsewhere. The argument is clamped:
/// inf/inf never arises.
MIXTAPE_HD inline float tanh(float x) {
  const float a = abs(x), s = x * x;
  float p = -5.70498872745e-3f;
  p = fma(p, s, 2.06390887954e-2f);
  p = fma(p, s, -5.37397155531e-2f);
  p = fma(p, s, 1.33314422036e-1f);
  p = fma(p, s, -3.33332819422e-1f);
  const float small = fma(p * s, x, x);
  const float large = 1.0f - 2.0f / (exp(2.0f * select(a > 10.0f, 10.0f, a)) + 1.0f);
  const float value = select(a < 0.625f, small, __builtin_copysignf(large, x));
  return select(is_nan(x), x, value);
}
MIXTAPE_HD inline double tanh(double x) { return __builtin_tanh(x); }

/// Complementary error function for a >= 0 by the rational-exponential form of Abramowitz and Stegun's family, with the
/// Chebyshev fit of Press et al. (erfcc): relative error below 1.2e-7 everywhere.
MIXTAPE_HD inline float erfc_positive(float a) {
  const float t = 1.0f / fma(0.5f, a, 1.0f);
  float p = 0.17087277f;
  p = fma(p, t, -0.82215223f);
  p = fma(p, t, 1.48851587f);
  p = fma(p, t, -1.13520398f);
  p = fma(p, t, 0.27886807f);
  p = fma(p, t, -0.18628806f);
  p = fma(p, t, 0.09678418f);
  p = fma(p, t, 0.37409196f);
  p = fma(p, t, 1.00002368f);
  p = fma(p, t, -1.26551223f);
  return t * exp(fma(-a, a, p));
}

MIXTAPE_HD inline float erf(float x) {
  const float a = abs(x), s = x * x;
  float p = 7.853857710e-5f;  // erf(x)/x in x², |x| < 1: least maximum of the relative error, 1.3e-9
  p = fma(p, s, -8.010192522e-4f);
  p = fma(p, s, 5.188327560e-3f);
  p = fma(p, s, -2.685381187e-2f);
  p = fma(p, s, 1.128358515e-1f);
  p = fma(p, s, -3.761262582e-1f);
  p = fma(p, s, 1.128379166f);
  const float large = 1.0f - erfc_positive(select(a > 6.0f, 6.0f, a));
  const float value = select(a < 1.0f, x * p, __builtin_copysignf(large, x));
  return select(is_nan(x), x, value);
}
MIXTAPE_HD inline double erf(double x) { return __builtin_erf(x); }

/// Standard normal distribution function Φ(x) = (1 + erf(x/√2)) / 2, without cancellation in the lower tail.
MIXTAPE_HD inline float normal_cdf(float x) {
  const float a = abs(x) * 0.70710678f;
  const float tail = 0.5f * erfc_positive(select(a > 10.5f, 10.5f, a));
  return select(x > 0.0f, 1.0f - tail, tail);
}
MIXTAPE_HD inline double normal_cdf(double x) { return 0.5 * __builtin_erfc(-x * 0.70710678118654752440); }

}  // namespace mixtape::maths
