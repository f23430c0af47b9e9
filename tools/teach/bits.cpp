#include "tools/teach/bits.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace mixtape::teach {
namespace {

double relative_error_of(double held, double typed) {
  if (std::isnan(typed) || std::isnan(held)) return std::numeric_limits<double>::quiet_NaN();
  return held == typed ? 0 : (held - typed) / typed;
}

/// "7.45e-09"; a dash for what does not exist.
std::string three_digits(double value) { return std::isnan(value) ? "-" : fmt::format("{:.2e}", value); }

std::string error_text(double relative) { return std::isnan(relative) ? "-" : fmt::format("{:+.1e}", relative); }

}  // namespace

std::string BitsRow::binary(int first, int count) const {
  std::string out;
  for (int i = first + count - 1; i >= first; --i) out += (code >> i & 1u) != 0 ? '1' : '0';
  return out;
}

std::string BitsRow::hex() const { return fmt::format("0x{:0{}X}", code, format.bits / 4); }

std::string_view BitsRow::kind() const {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return "inf";
  if (value == 0) return "zero";
  return std::abs(value) < format.smallest_normal ? "subnormal" : "normal";
}

std::vector<BitsRow> bits(const Number& number, const std::vector<Format>& formats) {
  std::vector<BitsRow> rows;
  for (const Format& format : formats) {
    BitsRow row;
    row.format = format;
    row.code = code_of(format, number);
    row.value = value_of(format, row.code);
    row.ulp = ulp_of(format, row.value);
    row.relative_error = relative_error_of(row.value, number.value);
    row.below = number_below(format, row.value);
    row.above = number_above(format, row.value);
    rows.push_back(std::move(row));
  }
  return rows;
}

std::string bits_text(const std::vector<BitsRow>& rows, bool neighbours) {
  size_t exponent = 0, fraction = 0, hex = 0, value = 0, ulp = 0, error = 0;
  for (const BitsRow& row : rows) {
    exponent = std::max(exponent, row.exponent_bits().size());
    fraction = std::max(fraction, row.fraction_bits().size());
    hex = std::max(hex, row.hex().size());
    value = std::max(value, decimal(row.value).size());
    ulp = std::max(ulp, three_digits(row.ulp).size());
    error = std::max(error, error_text(row.relative_error).size());
  }
  std::string out;
  for (const BitsRow& row : rows) {
    out += fmt::format("{:<4} {} {:<{}} {:<{}}  {:<{}}  {:<{}}  ulp {:<{}}  err {:<{}} rel", row.format.name,
                       row.sign_bits(), row.exponent_bits(), exponent, row.fraction_bits(), fraction, row.hex(), hex,
                       decimal(row.value), value, three_digits(row.ulp), ulp, error_text(row.relative_error), error);
    if (neighbours) out += fmt::format("  between {} and {}", decimal(row.below), decimal(row.above));
    out += '\n';
  }
  return out;
}

trainer::Json bits_json(const Number& number, const std::vector<BitsRow>& rows) {
  trainer::Json formats = trainer::Json::array();
  for (const BitsRow& row : rows) {
    formats.push(trainer::Json::object()
                     .set("name", row.format.name)
                     .set("bits", row.hex())
                     .set("sign", row.sign_bits())
                     .set("exponent", row.exponent_bits())
                     .set("fraction", row.fraction_bits())
                     .set("kind", row.kind())
                     .set("value", row.value)
                     .set("ulp", row.ulp)
                     .set("relative_error", row.relative_error)
                     .set("below", row.below)
                     .set("above", row.above));
  }
  return trainer::Json::object().set("text", number.text).set("value", number.value).set("formats", std::move(formats));
}

}  // namespace mixtape::teach
