// teach bits: what a number becomes in each format, bit by bit.
#pragma once

#include "tools/teach/number.h"
#include "tools/trainer/json.h"

namespace mixtape::teach {

/// A number in one format.
struct BitsRow {
  Format format;
  uint32_t code = 0;
  double value = 0;
  double ulp = 0;             ///< NaN for inf and NaN
  double relative_error = 0;  ///< of `value` against what was typed; NaN for NaN
  double below = 0, above = 0;

  std::string sign_bits() const { return binary(format.bits - 1, 1); }
  std::string exponent_bits() const { return binary(format.fraction_bits, format.exponent_bits); }
  std::string fraction_bits() const { return binary(0, format.fraction_bits); }
  std::string hex() const;
  /// "normal", "subnormal", "zero", "inf" or "nan".
  std::string_view kind() const;

 private:
  std::string binary(int first, int count) const;
};

std::vector<BitsRow> bits(const Number& number, const std::vector<Format>& formats);

/// A line for each format; `neighbours` adds the numbers of the format on both sides.
std::string bits_text(const std::vector<BitsRow>& rows, bool neighbours);
trainer::Json bits_json(const Number& number, const std::vector<BitsRow>& rows);

}  // namespace mixtape::teach
