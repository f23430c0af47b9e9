#include "tools/teach/format.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <limits>

#include "core/half.h"
#include "tools/config/suggest.h"

namespace mixtape::teach {
namespace {

constexpr DType taught[] = {DType::f32, DType::f16, DType::bf16};

std::string_view user_name(DType dtype) { return dtype == DType::f32 ? "fp32" : dtype == DType::f16 ? "fp16" : "bf16"; }

/// The code beside that of `value`, one step up or down: codes count up with the magnitude.
double neighbour(const Format& format, double value, bool up) {
  if (std::isnan(value)) return value;
  const double infinity = std::numeric_limits<double>::infinity();
  if (value == (up ? infinity : -infinity)) return value;
  if (value == 0) return up ? format.smallest : -format.smallest;
  const bool away = (value > 0) == up;
  return value_of(format, code_of(format, value) + (away ? 1u : ~uint32_t{0}));
}

}  // namespace

Format format_of(DType dtype) {
  Format f;
  f.dtype = dtype;
  f.name = user_name(dtype);
  f.epsilon = eps(dtype);
  f.smallest_normal = tiny(dtype);
  f.largest = -lowest(dtype);
  f.bits = static_cast<int>(size_of(dtype)) * 8;
  f.fraction_bits = -std::ilogb(f.epsilon);
  f.exponent_bits = f.bits - 1 - f.fraction_bits;
  f.bias = 1 - std::ilogb(f.smallest_normal);
  f.smallest = f.smallest_normal * f.epsilon;
  f.underflow = f.smallest / 2;
  f.overflow = f.largest + ulp_of(f, f.largest) / 2;
  f.whole = 2 / f.epsilon;
  return f;
}

Format parse_format(std::string_view name) {
  std::vector<std::string> known;
  for (const DType dtype : taught) {
    if (name == user_name(dtype) || name == name_of(dtype)) return format_of(dtype);
    known.emplace_back(user_name(dtype));
  }
  const std::vector<std::string> near = config::nearest(name, known);
  fail(ErrorKind::config, "E-TEACH-FORMAT",
       message("no format of the name \"", name, "\": expected fp32, fp16 or bf16",
               near.size() == 1 ? message(". did you mean \"", near[0], "\"?") : ""));
}

std::vector<Format> parse_formats(std::string_view names) {
  std::vector<Format> out;
  for (size_t at = 0; at <= names.size();) {
    const size_t end = std::min(names.find(',', at), names.size());
    const Format format = parse_format(names.substr(at, end - at));
    for (const Format& other : out) {
      if (other.dtype == format.dtype)
        fail(ErrorKind::config, "E-TEACH-FORMAT",
             message(format.name, " comes twice in \"", names, "\": name it once"));
    }
    out.push_back(format);
    at = end + 1;
  }
  return out;
}

uint32_t code_of(const Format& format, double x) {
  if (format.dtype == DType::f16) return convert_to<half>(x).bits;
  if (format.dtype == DType::bf16) return convert_to<bf16>(x).bits;
  return std::bit_cast<uint32_t>(convert_to<float>(x));
}

double value_of(const Format& format, uint32_t code) {
  const auto low = static_cast<uint16_t>(code);
  if (format.dtype == DType::f16) return to_float(half{low});
  if (format.dtype == DType::bf16) return to_float(bf16{low});
  return std::bit_cast<float>(code);
}

double rounded(const Format& format, double x) { return value_of(format, code_of(format, x)); }

double ulp_of(const Format& format, double value) {
  if (!std::isfinite(value)) return std::numeric_limits<double>::quiet_NaN();
  const int lowest_exponent = 1 - format.bias;
  const int exponent = value == 0 ? lowest_exponent : std::max(std::ilogb(value), lowest_exponent);
  return std::ldexp(1.0, exponent - format.fraction_bits);
}

double number_above(const Format& format, double value) { return neighbour(format, value, true); }
double number_below(const Format& format, double value) { return neighbour(format, value, false); }

std::string decimal(double value) {
  if (!std::isfinite(value)) return std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
  if (value == 0) return std::signbit(value) ? "-0" : "0";
  std::string text = fmt::format("{:#.12g}", value);
  double read_back = 0;
  std::from_chars(text.data(), text.data() + text.size(), read_back);
  if (read_back != value) return text;
  const size_t exponent = std::min(text.find('e'), text.size());
  const size_t digits = text.find_last_not_of('0', exponent - 1) + 1;
  return text.substr(0, text[digits - 1] == '.' ? digits - 1 : digits) + text.substr(exponent);
}

std::string power_or_decimal(double value) {
  int exponent = 0;
  if (value > 0 && std::isfinite(value) && std::frexp(value, &exponent) == 0.5) return message("2^", exponent - 1);
  return decimal(value);
}

}  // namespace mixtape::teach
