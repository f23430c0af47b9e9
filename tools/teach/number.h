// Numbers as people type them: decimals, small formulas, bit patterns.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tools/teach/format.h"

namespace mixtape::teach {

struct BitPattern {
  DType dtype;
  uint32_t code;
};

struct Number {
  std::string text;  ///< as typed, without blanks around it
  double value = 0;  ///< the f64 nearest to it
  /// The same rounded to odd (core/half.h): rounding this to 32 or 16 bits is the one right rounding of what was typed,
  /// however many digits that has. For a formula, which is computed in f64, `value` itself.
  double unrounded = 0;
  std::optional<BitPattern> pattern;  ///< what a text like 0x2E66 stands for
};

/// Reads a decimal, inf, nan, a formula of them with + - * / ^ and brackets, the functions log exp sqrt tanh sigmoid
/// and the roundings fp32() fp16() bf16(); or a bit pattern (0x…) of the format `pattern_of`. Throws E-TEACH-VALUE
/// (config) with the place in the text.
Number parse_number(std::string_view text, const std::optional<Format>& pattern_of = {});
/// One that must be finite, in `format` too; `what` names it in the error, E-TEACH-VALUE.
double parse_finite(std::string_view what, std::string_view text, const Format& format = format_of(DType::f32));
/// Several such, with commas between.
std::vector<double> parse_numbers(std::string_view what, std::string_view text, const Format& format);

/// The bits of the number in a format: its own for a bit pattern of that format, even a signalling NaN's.
uint32_t code_of(const Format& format, const Number& number);

}  // namespace mixtape::teach
