// The float formats as their users name them, fp32, fp16 and bf16: all that follows from an element type, computed.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "core/dtype.h"

namespace mixtape::teach {

/// What a format can hold. Every number here is derived from size_of, tiny, eps and lowest of its element type.
struct Format {
  DType dtype = DType::f32;
  std::string_view name;
  int bits = 0, exponent_bits = 0, fraction_bits = 0, bias = 0;
  double largest = 0;          ///< the largest finite number
  double overflow = 0;         ///< the smallest number that rounds to inf
  double smallest_normal = 0;  ///< below it digits are lost
  double smallest = 0;         ///< the smallest positive number, a subnormal one
  double underflow = 0;        ///< the largest number that rounds to 0: a tie
  double epsilon = 0;          ///< from 1 to the next number
  double whole = 0;            ///< all integers up to here are there
};

/// Of f32, f16 and bf16.
Format format_of(DType dtype);

/// "fp16", or our own "f16". Throws E-TEACH-FORMAT (config) for a name that is none of the three.
Format parse_format(std::string_view name);
/// Names with commas between, in their order. Throws E-TEACH-FORMAT also for a name that comes twice.
std::vector<Format> parse_formats(std::string_view names);

/// The nearest number of the format, by the one conversion of core/half.h.
double rounded(const Format& format, double x);
/// The bits of the nearest number of the format.
uint32_t code_of(const Format& format, double x);
double value_of(const Format& format, uint32_t code);

/// The distance of numbers of the format around `value`, one of them: towards larger magnitudes where both differ. NaN
/// for inf and NaN.
double ulp_of(const Format& format, double value);
/// The next numbers of the format; beyond the largest inf. NaN has none: NaN.
double number_above(const Format& format, double value);
double number_below(const Format& format, double value);

/// "65504", "0.0999755859375": exact where twelve significant digits are enough, else rounded to twelve.
std::string decimal(double value);
/// "2^-14" for a power of two, else as decimal().
std::string power_or_decimal(double value);

}  // namespace mixtape::teach
