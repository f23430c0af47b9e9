// The only elementary functions that formulas use, host and device.
//
// Unqualified exp(float) is ::exp(double) on the host, and libm calls stop a loop from being vectorised; so the float
// versions here are branch-free polynomials, the double versions, which only gradcheck sees, are the standard
// library's. The polynomials are minimax fits (Remez) whose coefficients were rounded to float together;
// tests/test_maths.cpp asserts the error of every function. NaN gives NaN everywhere, and no argument makes inf - inf
// or 0·inf inside.
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
  return select(b > a, b, select(is_nan(b), b, a));
}
template <class T>
MIXTAPE_HD inline T min(T a, T b) {
  return select(b < a, b, select(is_nan(b), b, a));
}

namespace detail {

MIXTAPE_HD inline float from_bits(uint32_t bits) { return __builtin_bit_cast(float, bits); }
MIXTAPE_HD inline uint32_t bits_of(float x) { return __builtin_bit_cast(uint32_t, x); }

/// x = k·ln2 + r with an integer k and |r| <= ln2/2; |x| at most 2^20. NaN gives NaN and some integer.
struct ExpArgument {
  float r;
  int32_t k;
};
MIXTAPE_HD inline ExpArgument reduce_exp(float x) {
  const float shifted = fma(x, 1.44269504f, 12582912.0f);  // + 1.5·2^23: no fraction left, k is in the last bits
  const float k = shifted - 12582912.0f;
  return {fma(k, -1.42860677e-6f, fma(k, -0.693145752f, x)),  // ln2 in two parts (Cody and Waite)
          static_cast<int32_t>(bits_of(shifted) - 0x4b400000u)};
}
/// e^r - 1 for |r| <= ln2/2; relative error of 1 + the result 3.2e-9.
MIXTAPE_HD inline float expm1_small(float r) {
  float q = 1.38145115e-3f;
  q = fma(q, r, 8.36870447e-3f);
  q = fma(q, r, 4.16683294e-2f);
  q = fma(q, r, 1.66665211e-1f);
  q = fma(q, r, 4.99999940e-1f);
  return fma(r * r, q, r);
}
/// 2^k for an integer k from -126 to 127.
MIXTAPE_HD inline float power_of_two(int32_t k) { return from_bits(static_cast<uint32_t>(k + 127) << 23); }

/// e^(x + tiny) for |x| <= 150. 2^k comes in two halves, so that subnormal and infinite results are right too.
MIXTAPE_HD inline float exp_sum(float x, float tiny) {
  const ExpArgument a = reduce_exp(x);
  const float p = 1.0f + expm1_small(a.r + tiny);
  const int32_t lower = a.k >> 1;
  return p * power_of_two(lower) * power_of_two(a.k - lower);
}
/// x = mantissa·2^exponent, mantissa in [2/3, 4/3), for finite x > 0, subnormal ones too.
struct Split {
  float mantissa, exponent;
};
MIXTAPE_HD inline Split split(float x) {
  const bool subnormal = x < 0x1p-126f;
  const uint32_t bits = bits_of(select(subnormal, x * 0x1p23f, x));
  const int32_t exponent = static_cast<int32_t>(bits - 0x3f2aaaabu) >> 23;  // 0x3f2aaaab is 2/3
  return {from_bits(bits - (static_cast<uint32_t>(exponent) << 23)),
          static_cast<float>(exponent) - select(subnormal, 23.0f, 0.0f)};
}

/// (1 - Φ(z))·e^(z²/2) for z from 0 to 15: P(v)/(z + 2.5) with v = z/(z + 2.5), degree 9, relative error 3.1e-8.
MIXTAPE_HD inline float scaled_tail(float z) {
  const float t = 1.0f / (z + 2.5f), v = z * t;
  float p = -8.05706009e-2f;
  p = fma(p, v, 2.82943130e-1f);
  p = fma(p, v, -3.19039315e-1f);
  p = fma(p, v, 1.43525958e-1f);
  p = fma(p, v, -1.52960986e-1f);
  p = fma(p, v, 5.71699589e-2f);
  p = fma(p, v, 2.91631520e-1f);
  p = fma(p, v, 1.69633687e-1f);
  p = fma(p, v, -1.24339354f);
  p = fma(p, v, 1.25f);
  return p * t;
}

}  // namespace detail

/// e^x; inf from 88.72284 on, 0 below -103.98.
MIXTAPE_HD inline float exp(float x) {
  const float below = select(x > 89.0f, 89.0f, x);  // NaN falls through
  return detail::exp_sum(select(below < -104.0f, -104.0f, below), 0.0f);
}
MIXTAPE_HD inline double exp(double x) { return __builtin_exp(x); }
/// e^-a for a >= 0 (or NaN): one clamp less, and g++ vectorises longer formulas around it.
MIXTAPE_HD inline float exp_minus(float a) { return detail::exp_sum(-select(a > 104.0f, 104.0f, a), 0.0f); }
MIXTAPE_HD inline double exp_minus(double a) { return __builtin_exp(-a); }

/// Natural logarithm: log(0) = -inf, NaN below.
MIXTAPE_HD inline float log(float x) {
  const detail::Split s = detail::split(x);
  const float f = s.mantissa - 1.0f;  // exact
  float p = -1.28924385e-1f;          // (log(1 + f) - f + f²/2) / f³, relative to the logarithm 4.8e-9
  p = fma(p, f, 1.39851272e-1f);
  p = fma(p, f, -1.21841155e-1f);
  p = fma(p, f, 1.40057474e-1f);
  p = fma(p, f, -1.66804969e-1f);
  p = fma(p, f, 2.00104207e-1f);
  p = fma(p, f, -2.49997973e-1f);
  p = fma(p, f, 3.33332151e-1f);
  const float mantissa = fma(f * f, fma(p, f, -0.5f), f);
  const float value = fma(s.exponent, 0.693145752f, fma(s.exponent, 1.42860677e-6f, mantissa));
  const float positive = select(x < static_cast<float>(INFINITY), value, x);  // inf and NaN pass
  return select(x > 0.0f, positive, select(x == 0.0f, -static_cast<float>(INFINITY), static_cast<float>(NAN)));
}
MIXTAPE_HD inline double log(double x) { return __builtin_log(x); }

/// log(1 + x): the logarithm of the rounded sum, and what the rounding lost.
MIXTAPE_HD inline float log1p(float x) {
  const float sum = 1.0f + x, lost = x - (sum - 1.0f);
  const bool regular = sum > 0.0f && sum < static_cast<float>(INFINITY);
  return log(sum) + select(regular, lost / sum, 0.0f);
}
MIXTAPE_HD inline double log1p(double x) { return __builtin_log1p(x); }

/// x^y for every x and every finite y as IEEE 754-2019's pow, but that NaN^0 is NaN: a negative x with an integer y is
/// right, with another y it gives NaN; 0^0 = 1, 0^(negative) = inf. In double, because an error of log x counts y·log x
/// times.
MIXTAPE_HD inline float pow(float x, double y) {
  const float magnitude = abs(x);
  const detail::Split split = detail::split(magnitude);
  const double m = static_cast<double>(split.mantissa), s = (m - 1.0) / (m + 1.0), s2 = s * s;
  double p = 0.099976867305117789;  // (artanh(s) - s) / s³ in s², |s| <= 1/5, relative to artanh 2.9e-13
  p = fma(p, s2, 0.11074189821916225);
  p = fma(p, s2, 0.14286348684961533);
  p = fma(p, s2, 0.19999995955690153);
  p = fma(p, s2, 0.33333333337075916);
  const double finite = fma(static_cast<double>(split.exponent), 0.69314718055994531, 2.0 * fma(p * s2, s, s));
  const double beyond = 1e308;  // for log 0 and log inf, so that y = 0 makes no 0·inf
  const double not_zero = select(magnitude == 0.0f, -beyond, finite);
  const double not_inf = select(magnitude == static_cast<float>(INFINITY), beyond, not_zero);
  const double log_x = select(is_nan(x), static_cast<double>(x), not_inf);

  const double product = y * log_x;
  const double v = select(product > 110.0, 110.0, select(product < -110.0, -110.0, product));  // beyond: inf and 0
  const double shifted = fma(v, 1.4426950408889634, 0x1.8p52), k = shifted - 0x1.8p52;
  const double r = fma(k, -0.69314718055994531, v);
  double q = 1.9814002863578748e-4;  // (e^r - 1 - r) / r², relative error of e^r 1.6e-10
  q = fma(q, r, 1.3946033884888326e-3);
  q = fma(q, r, 8.3336751822719896e-3);
  q = fma(q, r, 4.1666285947629389e-2);
  q = fma(q, r, 0.16666663823130529);
  q = fma(q, r, 0.50000000678383716);
  const uint64_t low_bits = __builtin_bit_cast(uint64_t, shifted);  // the last bits of the sum are the integer k
  const double scale = __builtin_bit_cast(double, (low_bits + 1023u) << 52);
  const double power = fma(r * r, q, r) * scale + scale;

  // What y is, as floats 0 or 1 by arithmetic alone: a comparison of doubles cannot choose among a vector of floats.
  const float fractional = static_cast<float>(__builtin_ceil(y) - __builtin_floor(y));
  const float not_even = static_cast<float>(__builtin_ceil(0.5 * y) - __builtin_floor(0.5 * y));
  const float value = static_cast<float>(power);
  const float with_sign = select(not_even == 0.0f, value, __builtin_copysignf(value, x));
  const float of_fraction =
      select(x < 0.0f, select(magnitude < static_cast<float>(INFINITY), static_cast<float>(NAN), value), value);
  return select(fractional == 0.0f, with_sign, of_fraction);
}
MIXTAPE_HD inline double pow(double x, double y) { return select(is_nan(x), x, __builtin_pow(x, y)); }

/// 1 / (1 + e^-x), from e^-|x|, so that nothing overflows and the small side keeps its relative accuracy.
template <class T>
MIXTAPE_HD inline T sigmoid(T x) {
  const T e = exp_minus(abs(x));
  return select(x >= T(0), T(1), e) / (T(1) + e);
}

/// tanh = E/(E + 2) with E = e^(2|x|) - 1, which keeps the relative accuracy of small x. The argument is clamped:
/// inf/inf never arises.
MIXTAPE_HD inline float tanh(float x) {
  const float a = abs(x);
  const detail::ExpArgument e = detail::reduce_exp(2.0f * select(a > 10.0f, 10.0f, a));
  const float scale = detail::power_of_two(e.k);
  const float expm1 = fma(scale, detail::expm1_small(e.r), scale - 1.0f);
  return __builtin_copysignf(expm1 / (expm1 + 2.0f), x);
}
MIXTAPE_HD inline double tanh(double x) { return __builtin_tanh(x); }

/// What a normal variable's functions are made of: e^(-x²/2) and 1 - Φ(|x|), both with their relative accuracy kept
/// far into the tail (x² is taken with its rounding error).
template <class T>
struct NormalTail {
  T gauss, tail;
};
MIXTAPE_HD inline NormalTail<float> normal_tail(float x) {
  const float a = abs(x), z = select(a > 15.0f, 15.0f, a);  // e^(-15²/2) is 0 already
  const float square = z * z, lost = fma(z, z, -square);
  const float gauss = detail::exp_sum(-0.5f * square, -0.5f * lost);
  return {gauss, gauss * detail::scaled_tail(z)};
}
MIXTAPE_HD inline NormalTail<double> normal_tail(double x) {
  const double z = __builtin_fabs(x);
  return {__builtin_exp(-0.5 * z * z), 0.5 * __builtin_erfc(z * 0.70710678118654752440)};
}
/// Standard normal distribution function Φ(x) = (1 + erf(x/√2)) / 2, without cancellation in the lower tail.
template <class T>
MIXTAPE_HD inline T normal_cdf(T x) {
  const T tail = normal_tail(x).tail;
  return select(x > T(0), T(1) - tail, tail);
}

/// Complementary error function of x >= 0.
MIXTAPE_HD inline float erfc_positive(float x) {
  const float a = select(x > 10.5f, 10.5f, x), square = a * a, lost = fma(a, a, -square);
  return 2.0f * detail::exp_sum(-square, -lost) * detail::scaled_tail(1.41421356f * a);
}
MIXTAPE_HD inline float erf(float x) {
  const float a = abs(x), s = x * x;
  float q = 7.80690389e-5f;  // erf(x)/x - 1 in x², |x| < 1, relative error 1.5e-9
  q = fma(q, s, -7.99785310e-4f);
  q = fma(q, s, 5.18716220e-3f);
  q = fma(q, s, -2.68533472e-2f);
  q = fma(q, s, 1.12835787e-1f);
  q = fma(q, s, -3.76126260e-1f);
  q = fma(q, s, 1.28379166e-1f);
  const float large = 1.0f - erfc_positive(a);
  return select(a < 1.0f, fma(x, q, x), __builtin_copysignf(large, x));
}
MIXTAPE_HD inline double erf(double x) { return __builtin_erf(x); }

}  // namespace mixtape::maths
