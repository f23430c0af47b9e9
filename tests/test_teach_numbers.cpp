// Numbers and formats of the lessons, against references that share nothing with them: the definition of a format, and
// the standard library's own reading of decimals.
#include <doctest/doctest.h>

#include <charconv>
#include <cmath>
#include <functional>

#include "core/factory.h"
#include "tests/shared.h"
#include "tools/teach/accumulate.h"
#include "tools/teach/bits.h"
#include "tools/teach/quiz.h"
#include "tools/teach/swallow.h"

namespace mixtape::teach {
namespace {

using tests::contains;
using tests::error_text;

constexpr DType taught[] = {DType::f32, DType::f16, DType::bf16};

/// The exact decimal of a number, however many digits that takes.
std::string exact_decimal(double value) {
  char buffer[1200];
  const std::to_chars_result end =
      std::to_chars(buffer, buffer + sizeof buffer, value, std::chars_format::scientific, 800);
  const std::string text(buffer, end.ptr);
  const size_t e = text.find('e'), digits = text.find_last_not_of('0', e - 1) + 1;
  return text.substr(0, digits) + (text[digits - 1] == '.' ? "0" : "") + text.substr(e);
}

/// The decimal with digits put behind its last one.
std::string with_digits(const std::string& text, const std::string& more) {
  std::string out = text;
  return out.insert(out.find('e'), more);
}

double read(const Format& format, const std::string& text) {
  return value_of(format, code_of(format, parse_number(text)));
}

}  // namespace

TEST_CASE("teach numbers: what a format is follows from its element type") {
  const Format f = format_of(DType::f16);
  CHECK(f.name == "fp16");
  CHECK(f.bits == 16);
  CHECK(f.exponent_bits == 5);
  CHECK(f.fraction_bits == 10);
  CHECK(f.bias == 15);
  CHECK(f.overflow == 65520);
  CHECK(f.whole == 2048);
  CHECK(format_of(DType::bf16).exponent_bits == 8);
  CHECK(format_of(DType::f32).overflow == 0x1.ffffffp127);
  CHECK(parse_formats("bf16,f32").size() == 2);
  CHECK(parse_format("f16").dtype == DType::f16);
}

TEST_CASE("teach numbers: bits, value, ulp and neighbours of every 16-bit code follow the definition") {
  int wrong = 0;
  for (const DType dtype : {DType::f16, DType::bf16}) {
    const Format f = format_of(dtype);
    for (uint32_t code = 0; code < 0x10000; code += 3) {
      const Number number{"", value_of(f, code), value_of(f, code), BitPattern{dtype, code}};
      const BitsRow row = bits(number, {f})[0];
      if (std::isnan(row.value)) continue;
      const int exponent = std::stoi(row.exponent_bits(), nullptr, 2),
                fraction = std::stoi(row.fraction_bits(), nullptr, 2);
      const int power = std::max(exponent, 1) - f.bias - f.fraction_bits;
      const double sign = row.sign_bits() == "1" ? -1 : 1;
      const bool infinite = exponent == 2 * f.bias + 1;
      wrong += row.code != code;
      wrong += infinite ? !std::isinf(row.value)
                        : row.value != sign * std::ldexp(fraction + (exponent > 0 ? 1 << f.fraction_bits : 0), power);
      if (infinite) continue;
      wrong += row.ulp != std::ldexp(1.0, power);
      const double away = sign > 0 ? row.above : row.below;
      wrong += away != value_of(f, code + 1);
      if ((code & 0x7fff) != 0) wrong += (sign > 0 ? row.below : row.above) != value_of(f, code - 1);
    }
  }
  CHECK(wrong == 0);
}

TEST_CASE("teach numbers: around every tie the digits of the text decide, however late they come") {
  const std::string zeros(30, '0');
  int wrong = 0, tried = 0;
  for (const DType dtype : taught) {
    const Format f = format_of(dtype);
    const uint32_t codes = 1u << (f.bits - 1), stride = codes / 400 + 1;
    for (uint32_t code = 0; code < codes; code += stride) {
      const double low = value_of(f, code), high = value_of(f, code + 1);
      if (!std::isfinite(low) || !std::isfinite(high)) continue;
      const std::string tie = exact_decimal(low + (high - low) / 2);
      const std::string above = with_digits(tie, zeros + "1");
      std::string below = with_digits(tie, "");
      const size_t last = below.find('e') - 1;  // never 0, but for whole numbers: "…5", less one, is "…4" and nines
      if (below[last] == '0') continue;
      --below[last];
      below = with_digits(below, std::string(30, '9'));
      wrong += read(f, tie) != value_of(f, code + (code & 1u));
      wrong += read(f, above) != high;
      wrong += read(f, below) != low;
      wrong += read(f, "-" + above) != -high;
      ++tried;
    }
  }
  CHECK(wrong == 0);
  CHECK(tried > 1000);
}

TEST_CASE("teach numbers: random decimals become the fp32 that the standard library reads") {
  int wrong = 0;
  for (uint64_t i = 0; i < 3000; ++i) {
    const RngCoordinates at{.seed = i, .stream = rng_stream::test};
    std::string text = message(static_cast<int64_t>(uniform32(at, 0) * 10), ".");
    for (uint64_t digit = 1; digit < 5 + i % 40; ++digit) text += static_cast<char>('0' + uniform32(at, digit) * 10);
    text += message("e", static_cast<int64_t>(uniform32(at, 100) * 80) - 45);
    float wanted = 0;
    std::from_chars(text.data(), text.data() + text.size(), wanted);
    wrong += read(format_of(DType::f32), text) != static_cast<double>(wanted);
  }
  CHECK(wrong == 0);
}

TEST_CASE("teach numbers: decimals are shown with as many digits as they need, at most twelve") {
  CHECK(decimal(65504) == "65504");
  CHECK(decimal(0.0999755859375) == "0.0999755859375");
  CHECK(decimal(static_cast<double>(0.1f)) == "0.100000001490");
  CHECK(decimal(0x1p-24) == "5.96046447754e-08");
  CHECK(decimal(0x1p-14) == "6.103515625e-05");
  CHECK(decimal(-0.0) == "-0");
  CHECK(decimal(1e300) == "1e+300");
  CHECK(decimal(5e-324) == "4.94065645841e-324");
  CHECK(power_or_decimal(0x1p-149) == "2^-149");
  CHECK(power_or_decimal(3) == "3");
}

TEST_CASE("teach numbers: formulas") {
  const auto value = [](const char* text) { return parse_number(text).value; };
  CHECK(value("2^3^2") == 512);
  CHECK(value("-2^-2") == -0.25);
  CHECK(value("1 - 2 - 3") == -4);
  CHECK(value("8/4/2") == 1);
  CHECK(value("bf16(257) + f16(2049) - fp32(1)") == 256 + 2048 - 1);
  CHECK(value("+1e2") == 100);
  CHECK(value(".5") == 0.5);
  CHECK(std::isnan(value("inf - inf")));
  CHECK(contains(error_text([&] { value("foo(1)"); }), "E-TEACH-VALUE"));
  CHECK(contains(error_text([&] { value("exp 1"); }), "expected ( after exp"));
  CHECK(contains(error_text([&] { value("1 2"); }), "operator"));
  CHECK(contains(error_text([&] { value(std::string(60, '-').append("1").c_str()); }), "deep"));
}

TEST_CASE("teach numbers: sums and walks are those of loops that are written down here") {
  const AccumulateOptions options{.dtype = DType::bf16, .n = 1000, .value = 0.3, .random = true, .seed = 3};
  const Accumulate sums = accumulate(options);
  const std::vector<double> terms =
      to_vector(rand_uniform({1000}, {.seed = 3, .stream = rng_stream::test}, 0, 0.6, DType::bf16));
  const Format f = format_of(DType::bf16);
  double exact = 0, running = 0, kahan = 0, lost = 0;
  int64_t unchanged = 0;
  for (const double x : terms) {
    exact += x;
    unchanged += rounded(f, running + x) == running && x != 0;
    running = rounded(f, running + x);
    const double y = rounded(f, x - lost), t = rounded(f, kahan + y);
    lost = rounded(f, rounded(f, t - kahan) - y);
    kahan = t;
  }
  const std::function<double(size_t, size_t)> halves = [&](size_t from, size_t count) {
    return count == 1 ? terms[from] : rounded(f, halves(from, count / 2) + halves(from + count / 2, count / 2));
  };
  CHECK(sums.exact == exact);
  CHECK(sums.methods[0].sum == running);
  CHECK(sums.methods[0].lost == unchanged);
  CHECK(sums.methods[2].sum == kahan);
  CHECK(sums.methods[0].curve.size() == sums.at.size());
  CHECK(accumulate({.dtype = DType::bf16, .n = 512, .value = 0.3, .random = true, .seed = 3}).methods[1].sum ==
        halves(0, 512));

  const Swallow walks = swallow({.dtype = DType::f16, .weight = 0.3, .update = 1.3e-4, .steps = 1000});
  float low = static_cast<float>(rounded(format_of(DType::f16), 0.3)), master = 0.3f;
  for (size_t step = 1; step <= 1000; ++step) {
    low = static_cast<float>(rounded(format_of(DType::f16), static_cast<double>(low + 1.3e-4f)));
    master += 1.3e-4f;
    CHECK(walks.low.weight[step] == static_cast<double>(low));
    CHECK(walks.master.weight[step] == static_cast<double>(master));
  }
  CHECK(walks.master.moved == 1000);
  CHECK(walks.low.moved < 1000);
}

TEST_CASE("teach numbers: quiz questions have the answers that the formats give") {
  const Format half_format = format_of(DType::f16), bf16_format = format_of(DType::bf16);
  int yes = 0, no = 0;
  for (uint64_t seed = 0; seed < 200; ++seed) {
    for (const Question& question : quiz_questions(seed, 8)) {
      CAPTURE(question.text);
      CHECK_FALSE(question.explanation.empty());
      CHECK(std::isfinite(question.answer));
      const Format& f = question.text.starts_with("fp16") ? half_format : bf16_format;
      if (question.kind == "bits" || question.kind == "rounding" || question.kind == "stall")
        CHECK(rounded(f, question.answer) == question.answer);
      if (question.kind == "stall") CHECK(rounded(f, question.answer + question.answer / f.whole) == question.answer);
      if (question.yes_or_no) (question.answer == 1 ? yes : no)++;
      CHECK(grade({question}, {question.answer_text()})[0].right);
    }
  }
  CHECK(yes > 150);
  CHECK(no > 150);
}

}  // namespace mixtape::teach
