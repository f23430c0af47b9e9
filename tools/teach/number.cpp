#include "tools/teach/number.h"

#include <bit>
#include <charconv>
#include <cmath>
#include <limits>
#include <system_error>

#include "core/maths.h"

namespace mixtape::teach {
namespace {

constexpr size_t longest_number = 1000;
constexpr int deepest = 50;

std::string_view without_blanks(std::string_view text) {
  const size_t first = text.find_first_not_of(" \t"), last = text.find_last_not_of(" \t");
  return first == std::string_view::npos ? std::string_view() : text.substr(first, last - first + 1);
}

[[noreturn]] void fail_value(std::string_view text, const std::string& what) {
  const std::string shown(text.substr(0, 60));
  fail(ErrorKind::config, "E-TEACH-VALUE", message("\"", shown, text.size() > 60 ? "…" : "", "\": ", what));
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_letter(char c) { return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'); }

/// A formula, from left to right. Each function takes what it can and leaves at_ behind it.
class FormulaReader {
 public:
  explicit FormulaReader(std::string_view text) : text_(text) {}

  double all() {
    const double value = sum();
    if (skip_blanks(); at_ < text_.size()) complain("expected an operator + - * / ^ or the end");
    return value;
  }

 private:
  double sum() {
    double value = product();
    while (true) {
      if (take('+'))
        value += product();
      else if (take('-'))
        value -= product();
      else
        return value;
    }
  }

  double product() {
    double value = factor();
    while (true) {
      if (take('*'))
        value *= factor();
      else if (take('/'))
        value /= factor();
      else
        return value;
    }
  }

  double factor() {
    const Depth depth(*this);
    if (take('-')) return -factor();
    if (take('+')) return factor();
    const double base = primary();
    return take('^') ? std::pow(base, factor()) : base;  // 2^-24; powers bind to the right
  }

  double primary() {
    skip_blanks();
    if (at_ < text_.size() && (is_digit(text_[at_]) || text_[at_] == '.')) return literal();
    if (at_ < text_.size() && is_letter(text_[at_])) return word();
    if (!take('(')) complain("expected a number");
    return closed(sum());
  }

  double literal() {
    double value = 0;
    const char* const first = text_.data() + at_;
    const auto [end, error] = std::from_chars(first, text_.data() + text_.size(), value);
    if (error == std::errc::result_out_of_range) complain("expected a number that an f64 holds, 4.9e-324 to 1.8e308");
    if (error != std::errc()) complain("expected a number");
    at_ += static_cast<size_t>(end - first);
    return value;
  }

  double word() {
    const size_t start = at_;
    while (at_ < text_.size() && (is_letter(text_[at_]) || is_digit(text_[at_]))) ++at_;
    const std::string_view name = text_.substr(start, at_ - start);
    if (name == "inf" || name == "infinity") return std::numeric_limits<double>::infinity();
    if (name == "nan") return std::numeric_limits<double>::quiet_NaN();
    if (!is_function(name)) {
      at_ = start;
      complain("expected a number, inf, nan, or one of log exp sqrt tanh sigmoid fp32 fp16 bf16 before a bracket");
    }
    if (!take('(')) complain(message("expected ( after ", name));
    return apply(name, closed(sum()));
  }

  static bool is_function(std::string_view name) {
    for (const char* known : {"log", "exp", "sqrt", "tanh", "sigmoid", "fp32", "f32", "fp16", "f16", "bf16"}) {
      if (name == known) return true;
    }
    return false;
  }

  static double apply(std::string_view name, double x) {
    if (name == "log") return maths::log(x);
    if (name == "exp") return maths::exp(x);
    if (name == "sqrt") return maths::sqrt(x);
    if (name == "tanh") return maths::tanh(x);
    if (name == "sigmoid") return maths::sigmoid(x);
    return rounded(parse_format(name), x);
  }

  double closed(double value) {
    if (!take(')')) complain("expected )");
    return value;
  }

  void skip_blanks() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\t')) ++at_;
  }
  bool take(char wanted) {
    skip_blanks();
    if (at_ == text_.size() || text_[at_] != wanted) return false;
    ++at_;
    return true;
  }
  [[noreturn]] void complain(const std::string& what) const {
    fail_value(text_, message(what, " at character ", at_ + 1));
  }

  /// Brackets, signs and powers nest through factor() alone.
  struct Depth {
    explicit Depth(FormulaReader& formula) : of(formula) {
      if (++of.depth_ > deepest) of.complain(message("nests more than ", deepest, " deep"));
    }
    ~Depth() { --of.depth_; }
    FormulaReader& of;
  };

  std::string_view text_;
  size_t at_ = 0;
  int depth_ = 0;
};

/// A decimal as its digits, without zeros at either end, and the power of ten of the first of them.
struct Digits {
  std::string digits;
  int64_t exponent = 0;
};

/// Of digits, one point, one exponent; `text` was read as a number before.
Digits digits_of(std::string_view text) {
  Digits out;
  bool point = false;
  const size_t e = std::min(text.find_first_of("eE"), text.size());
  for (const char c : text.substr(0, e)) {
    if (c == '.') {
      point = true;
      continue;
    }
    if (out.digits.empty() && c == '0') {
      out.exponent -= point;  // 0.001: the first digit comes later
      continue;
    }
    if (!point && !out.digits.empty()) ++out.exponent;
    if (point && out.digits.empty()) --out.exponent;
    out.digits.push_back(c);
  }
  while (!out.digits.empty() && out.digits.back() == '0') out.digits.pop_back();
  int64_t written = 0;
  if (e < text.size()) {
    const size_t sign = text[e + 1] == '+';
    std::from_chars(text.data() + e + 1 + sign, text.data() + text.size(), written);
  }
  out.exponent += written;
  return out;
}

/// The f64 `nearest` of a positive decimal, rounded to odd instead: towards zero, with the last bit set unless exact.
double rounded_to_odd(std::string_view text, double nearest) {
  char buffer[1200];  // an f64 has at most 767 digits
  const std::to_chars_result end =
      std::to_chars(buffer, buffer + sizeof buffer, nearest, std::chars_format::scientific, 1100);
  const Digits typed = digits_of(text), held = digits_of({buffer, end.ptr});
  if (typed.digits == held.digits && (typed.exponent == held.exponent || typed.digits.empty())) return nearest;
  const bool held_is_larger = !held.digits.empty() && (held.exponent != typed.exponent ? held.exponent > typed.exponent
                                                                                       : held.digits > typed.digits);
  const uint64_t bits = std::bit_cast<uint64_t>(nearest) - (held_is_larger ? 1u : 0u);
  return std::bit_cast<double>(bits | 1u);
}

/// "-0.1e3" without its sign; empty for what is no plain decimal.
std::string_view plain_decimal(std::string_view text) {
  if (!text.empty() && (text[0] == '-' || text[0] == '+')) text.remove_prefix(1);
  double ignored = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), ignored);
  const bool whole = error == std::errc() && end == text.data() + text.size();
  return whole && !is_letter(text[0]) && text[0] != '-' ? text : std::string_view();
}

Number parse_pattern(std::string_view text, const std::optional<Format>& format) {
  if (!format)
    fail_value(text, "a bit pattern needs its format: name one, --formats bf16, or say which with --of bf16");
  const std::string_view hex = text.substr(2);
  uint32_t code = 0;
  const auto [end, error] = std::from_chars(hex.data(), hex.data() + hex.size(), code, 16);
  if (error != std::errc() || end != hex.data() + hex.size() || std::ssize(hex) * 4 > format->bits)
    fail_value(text, message("expected a bit pattern of ", format->name, ": 0x and at most ", format->bits / 4,
                             " hexadecimal digits"));
  const double value = value_of(*format, code);
  return {std::string(text), value, value, BitPattern{format->dtype, code}};
}

}  // namespace

Number parse_number(std::string_view text, const std::optional<Format>& pattern_of) {
  text = without_blanks(text);
  if (text.size() > longest_number) fail_value(text, message("expected at most ", longest_number, " characters"));
  if (text.starts_with("0x") || text.starts_with("0X")) return parse_pattern(text, pattern_of);
  Number out{std::string(text), FormulaReader(text).all(), 0, {}};
  out.unrounded = out.value;
  if (const std::string_view magnitude = plain_decimal(text); !magnitude.empty())
    out.unrounded = std::copysign(rounded_to_odd(magnitude, std::abs(out.value)), out.value);
  return out;
}

double parse_finite(std::string_view what, std::string_view text, const Format& format) {
  const double value = parse_number(text).value;
  if (!std::isfinite(value)) fail_value(text, message(what, " must be finite"));
  if (!std::isfinite(rounded(format, value)))
    fail_value(text, message(what, " is inf in ", format.name, ", which ends at ", decimal(format.largest)));
  return value;
}

std::vector<double> parse_numbers(std::string_view what, std::string_view text, const Format& format) {
  std::vector<double> out;
  for (size_t at = 0; at <= text.size();) {
    const size_t end = std::min(text.find(',', at), text.size());
    out.push_back(parse_finite(what, text.substr(at, end - at), format));
    at = end + 1;
  }
  return out;
}

uint32_t code_of(const Format& format, const Number& number) {
  if (number.pattern && number.pattern->dtype == format.dtype) return number.pattern->code;
  return code_of(format, number.unrounded);
}

}  // namespace mixtape::teach
