// The two 16-bit float types: storage only, exact round-to-nearest-even conversions, host and device.
// IEEE 754-2019 binary16 (`half`) and the upper 16 bits of binary32 (`bf16`).
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>

#include "core/hd.h"

namespace mixtape {

struct half {
  uint16_t bits = 0;
};
struct bf16 {
  uint16_t bits = 0;
};

namespace convert_bits {
MIXTAPE_HD inline uint32_t of(float x) { return __builtin_bit_cast(uint32_t, x); }
MIXTAPE_HD inline float to_float(uint32_t u) { return __builtin_bit_cast(float, u); }
}  // namespace convert_bits

MIXTAPE_HD inline float to_float(float x) { return x; }
MIXTAPE_HD inline float to_float(bf16 x) { return convert_bits::to_float(uint32_t{x.bits} << 16); }

MIXTAPE_HD inline float to_float(half x) {
  const uint32_t sign = uint32_t{x.bits & 0x8000u} << 16, magnitude = x.bits & 0x7fffu;
  if (magnitude >= 0x7c00u) {  // inf, NaN: quietened as the hardware does, payload kept
    const uint32_t quiet = magnitude > 0x7c00u ? 0x400000u : 0u;
    return convert_bits::to_float(sign | 0x7f800000u | quiet | ((magnitude & 0x3ffu) << 13));
  }
  if (magnitude >= 0x400u) return convert_bits::to_float(sign | ((magnitude << 13) + 0x38000000u));
  const float value = static_cast<float>(magnitude) * 0x1p-24f;  // subnormal: exact in f32
  return convert_bits::to_float(sign | convert_bits::of(value));
}

/// Nearest bf16, ties to even; NaN stays NaN (quiet), overflow gives inf.
MIXTAPE_HD inline bf16 to_bf16(float x) {
  const uint32_t u = convert_bits::of(x);
  const uint32_t nan = (u >> 16) | 0x40u;
  const uint32_t rounded = (u + 0x7fffu + ((u >> 16) & 1u)) >> 16;
  return bf16{static_cast<uint16_t>((u & 0x7fffffffu) > 0x7f800000u ? nan : rounded)};
}

/// Nearest half, ties to even; from 65520 on inf, up to 2^-25 zero.
MIXTAPE_HD inline half to_half(float x) {
  const uint32_t u = convert_bits::of(x), sign = (u >> 16) & 0x8000u, magnitude = u & 0x7fffffffu;
  if (magnitude > 0x7f800000u) return half{static_cast<uint16_t>(sign | 0x7e00u | ((magnitude >> 13) & 0x3ffu))};
  if (magnitude >= 0x477ff000u) return half{static_cast<uint16_t>(sign | 0x7c00u)};
  if (magnitude < 0x38800000u) {  // subnormal: adding 0.5 puts the units of 2^-24 into the last bits, correctly rounded
    const float shifted = convert_bits::to_float(magnitude) + 0.5f;
    return half{static_cast<uint16_t>(sign | (convert_bits::of(shifted) - 0x3f000000u))};
  }
  const uint32_t rounded = magnitude + 0xfffu + ((magnitude >> 13) & 1u);
  return half{static_cast<uint16_t>(sign | ((rounded - 0x38000000u) >> 13))};
}

/// double -> float, rounded to odd: a second rounding to 16 bits is then the correct one (Boldo and Melquiond, 2008).
MIXTAPE_HD inline float round_to_odd(double x) {
  const float nearest = static_cast<float>(x);
  if (static_cast<double>(nearest) == x || x != x) return nearest;
  uint32_t u = convert_bits::of(nearest);
  const double magnitude = x < 0 ? -x : x;
  const float nearest_magnitude = convert_bits::to_float(u & 0x7fffffffu);
  if (static_cast<double>(nearest_magnitude) > magnitude) u -= 1;  // towards zero; inf becomes the largest float
  return convert_bits::to_float(u | 1u);
}

template <class To>
struct Convert {  // arithmetic types
  template <class From>
  MIXTAPE_HD static To from(From x) {
    return static_cast<To>(x);
  }
  MIXTAPE_HD static To from(half x) { return static_cast<To>(to_float(x)); }
  MIXTAPE_HD static To from(bf16 x) { return static_cast<To>(to_float(x)); }
};
template <>
struct Convert<half> {
  template <class From>
  MIXTAPE_HD static half from(From x) {
    return to_half(static_cast<float>(x));
  }
  MIXTAPE_HD static half from(double x) { return to_half(round_to_odd(x)); }
  MIXTAPE_HD static half from(half x) { return x; }
  MIXTAPE_HD static half from(bf16 x) { return to_half(to_float(x)); }
};
template <>
struct Convert<bf16> {
  template <class From>
  MIXTAPE_HD static bf16 from(From x) {
    return to_bf16(static_cast<float>(x));
  }
  MIXTAPE_HD static bf16 from(double x) { return to_bf16(round_to_odd(x)); }
  MIXTAPE_HD static bf16 from(half x) { return to_bf16(to_float(x)); }
  MIXTAPE_HD static bf16 from(bf16 x) { return x; }
};

/// The one conversion between element types, rounded once to nearest even.
template <class To, class From>
MIXTAPE_HD To convert_to(From x) {
  return Convert<To>::from(x);
}

}  // namespace mixtape
