// The two 16-bit types: every code, every tie, a dense sample of all floats, against a reference in double that shares
// nothing with the conversions, and the hardware path against the software one.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <string>
#include <vector>

#include "core/dtype.h"
#include "core/kernels/convert.h"

using namespace mixtape;

namespace {

constexpr float inf = std::numeric_limits<float>::infinity();

uint32_t bits_of(float x) { return __builtin_bit_cast(uint32_t, x); }
float float_of(uint32_t bits) { return __builtin_bit_cast(float, bits); }

// What a 16-bit format is: its fraction bits, its exponent bias and its largest finite number.
struct Format {
  int fraction, bias;
  double largest;
};
constexpr Format half_format{10, 15, 65504.0}, bf16_format{7, 127, 0x1.fep127};

// The value of a code, spelled out from the definition.
double value_of(const Format& f, uint16_t code) {
  const int exponent = (code & 0x7fff) >> f.fraction, fraction = code & ((1 << f.fraction) - 1);
  const double sign = code & 0x8000 ? -1 : 1;
  if (exponent == 2 * f.bias + 1) return fraction ? std::nan("") : sign * inf;
  if (exponent == 0) return sign * std::ldexp(fraction, 1 - f.bias - f.fraction);
  return sign * std::ldexp((1 << f.fraction) + fraction, exponent - f.bias - f.fraction);
}

// The code of the nearest value, ties to even, by scaling to integers. x is no NaN.
uint16_t nearest_code(const Format& f, double x) {
  const int infinite = (2 * f.bias + 1) << f.fraction;
  const double magnitude = std::abs(x);
  int code = infinite;
  if (magnitude <= f.largest * 2) {
    // The exponent field of a double, at least that of the format's subnormal numbers.
    const int own = static_cast<int>(__builtin_bit_cast(uint64_t, magnitude) >> 52) - 1023;
    const int exponent = own < 1 - f.bias ? 1 - f.bias : own;
    const double unit = __builtin_bit_cast(double, static_cast<uint64_t>(exponent - f.fraction + 1023) << 52);
    // The quotient is exact. A carry into the next exponent is right in this sum.
    code = ((exponent + f.bias - 1) << f.fraction) + static_cast<int>(std::nearbyint(magnitude / unit));
    if (code > infinite) code = infinite;
  }
  return static_cast<uint16_t>(code | (std::signbit(x) ? 0x8000 : 0));
}

// Compares both conversions of a float with the reference; NaN only has to stay a quiet NaN with its upper payload.
bool converts(float x) {
  const uint16_t h = to_half(x).bits, b = to_bf16(x).bits;
  if (x != x) {
    const uint32_t u = bits_of(x);
    const uint16_t sign = static_cast<uint16_t>(u >> 16 & 0x8000);
    return h == (sign | 0x7e00 | (u >> 13 & 0x3ff)) && b == ((u >> 16) | 0x40);
  }
  return h == nearest_code(half_format, x) && b == nearest_code(bf16_format, x);
}

// Blocks through core/kernels/convert.cpp (F16C where the CPU has it), their tails too, against the scalar functions.
bool blocks_agree(const std::vector<float>& x) {
  const int64_t n = static_cast<int64_t>(x.size());
  std::vector<half> h(x.size());
  std::vector<bf16> b(x.size());
  kernels::from_float(x.data(), h.data(), n);
  kernels::from_float(x.data(), b.data(), n);
  for (size_t i = 0; i < x.size(); ++i) {
    if (h[i].bits != to_half(x[i]).bits || b[i].bits != to_bf16(x[i]).bits) return false;
  }
  return true;
}

// The first float at `stride` that converts wrongly, as bits; empty when there is none.
std::string first_fault(uint64_t stride) {
  std::vector<float> block;
  for (uint64_t u = 0; u < uint64_t{1} << 32; u += stride) {
    const float x = float_of(static_cast<uint32_t>(u));
    if (!converts(x)) return "bits " + std::to_string(u);
    block.push_back(x);
    if (block.size() == 4093 || u + stride >= uint64_t{1} << 32) {
      if (!blocks_agree(block)) return "hardware, below bits " + std::to_string(u);
      block.clear();
    }
  }
  return "";
}

float through_half(double x) { return to_float(convert_to<half>(x)); }
float through_bf16(double x) { return to_float(convert_to<bf16>(x)); }

}  // namespace

TEST_CASE("half: all 65,536 codes of both types have their value and come back") {
  int wrong = 0;
  for (uint32_t code = 0; code < 0x10000; ++code) {
    const uint16_t c = static_cast<uint16_t>(code);
    const float h = to_float(half{c}), b = to_float(bf16{c});
    const double want_h = value_of(half_format, c), want_b = value_of(bf16_format, c);
    const bool nan_h = std::isnan(want_h), nan_b = std::isnan(want_b);
    wrong += nan_h ? !std::isnan(h) || to_half(h).bits != (c | 0x200) : h != want_h || to_half(h).bits != c;
    wrong += nan_b ? !std::isnan(b) || to_bf16(b).bits != (c | 0x40) : b != want_b || to_bf16(b).bits != c;
    wrong += std::signbit(h) != (c >> 15 == 1) || std::signbit(b) != (c >> 15 == 1);
  }
  CHECK(wrong == 0);
}

TEST_CASE("half: blocks of all codes, by the hardware where it can, are the same bits") {
  std::vector<half> h(0x10000);
  std::vector<bf16> b(0x10000);
  for (uint32_t c = 0; c < 0x10000; ++c) h[c].bits = b[c].bits = static_cast<uint16_t>(c);
  std::vector<float> from_h(h.size()), from_b(b.size());
  kernels::to_float(h.data(), from_h.data(), 0x10000 - 3);  // and an uneven tail
  kernels::to_float(h.data() + 0x10000 - 3, from_h.data() + 0x10000 - 3, 3);
  kernels::to_float(b.data(), from_b.data(), 0x10000);
  int wrong = 0;
  for (uint32_t c = 0; c < 0x10000; ++c) {
    wrong += bits_of(from_h[c]) != bits_of(to_float(h[c]));
    wrong += bits_of(from_b[c]) != c << 16;
  }
  CHECK(wrong == 0);
  CHECK(blocks_agree(from_h));
  CHECK(blocks_agree(from_b));
}

TEST_CASE("half: every tie and its neighbours round to nearest even") {
  int wrong = 0;
  for (uint32_t code = 0; code < 0x8000; ++code) {
    for (const Format& f : {half_format, bf16_format}) {
      const double low = value_of(f, static_cast<uint16_t>(code)), next = value_of(f, static_cast<uint16_t>(code + 1));
      if (!std::isfinite(low)) continue;
      // Halfway to the next code; beyond the largest number, to where it would be.
      const double high = std::isfinite(next) ? next : low + (low - value_of(f, static_cast<uint16_t>(code - 1)));
      const float tie = static_cast<float>(low + (high - low) / 2);
      for (const uint32_t u : {bits_of(tie) - 1, bits_of(tie), bits_of(tie) + 1}) {
        wrong += !converts(float_of(u)) + !converts(-float_of(u));
      }
    }
  }
  CHECK(wrong == 0);
}

TEST_CASE("half: every 997th float converts as the reference, in hardware and in software") {
  CHECK(first_fault(997) == "");
}

// Some minutes: mixtape_tests --no-skip --test-case='half: all 2^32 floats*'
TEST_CASE("half: all 2^32 floats convert as the reference" * doctest::skip()) { CHECK(first_fault(1) == ""); }

TEST_CASE("half: a double is rounded once") {
  CHECK(through_half(1 + 0x1p-11) == 1.0f);                    // a tie, to even
  CHECK(through_half(1 + 0x1p-11 + 0x1p-40) == 1 + 0x1p-10f);  // by way of a float it would be that tie again
  CHECK(through_half(-65520 + 0x1p-30) == -65504.0f);
  CHECK(through_half(0x1p-25 + 0x1p-60) == 0x1p-24f);
  CHECK(through_bf16(1 + 0x1p-8 + 0x1p-40) == 1 + 0x1p-7f);
  CHECK(through_half(1e300) == inf);
  CHECK(through_bf16(-1e300) == -inf);
  CHECK(through_half(1e-300) == 0.0f);
  int wrong = 0;
  for (uint32_t code = 1; code < 0x7c00; ++code) {
    const double value = value_of(half_format, static_cast<uint16_t>(code)),
                 tie = (value + value_of(half_format, static_cast<uint16_t>(code - 1))) / 2;
    for (const double x : {tie, tie * (1 - 0x1p-45), tie * (1 + 0x1p-45), value * (1 + 0x1p-30)}) {
      wrong += convert_to<half>(x).bits != nearest_code(half_format, x);
      wrong += convert_to<bf16>(x).bits != nearest_code(bf16_format, x);
    }
  }
  CHECK(wrong == 0);
}

TEST_CASE("half: the exact figures of the precision contract") {
  SUBCASE("half") {
    CHECK(through_half(65519) == 65504.0f);
    CHECK(through_half(65520) == inf);
    CHECK(through_half(0x1p-24) == 0x1p-24f);
    CHECK(through_half(0x1p-25) == 0.0f);
    CHECK(through_half(1e-7) == doctest::Approx(1.19e-7).epsilon(0.01));
    for (const double gone : {1e-8, 1e-12, 1e-13}) CHECK(through_half(gone) == 0.0f);
    CHECK(through_half(1e-4) == doctest::Approx(1.0002e-4).epsilon(1e-5));
    CHECK(through_half(1e-5) == doctest::Approx(1.0014e-5).epsilon(1e-5));
    CHECK(through_half(-1e4) == -10000.0f);
    CHECK(to_float(half{static_cast<uint16_t>(to_half(-1e4f).bits + 1)}) == -10008.0f);
    for (const double beyond : {-1e9, -66246.39, -863637.0}) CHECK(through_half(beyond) == -inf);
    CHECK(through_half(1.0001) == 1.0f);
    CHECK(through_half(1 + 4.88e-4) == 1.0f);
    CHECK(through_half(1 + 4.9e-4) == doctest::Approx(1.000977).epsilon(1e-6));
    CHECK(through_half(2049) == 2048.0f);
    CHECK(through_half(255.8) == 255.75f);
    CHECK(through_half(1e-8 * 65536) == doctest::Approx(6.55e-4).epsilon(1e-3));
    CHECK(through_half((1 - 0.999) * 1.5e-3 * 1.5e-3) == 0.0f);  // Adam's v after one step
    CHECK(through_half(60000 / 0.9) == inf);                     // dropout
    CHECK(through_half(1 - 2e-7) == 1.0f);
  }
  SUBCASE("bf16") {
    CHECK(through_bf16(1e-45) == 0.0f);
    CHECK(through_bf16(1e-12) == doctest::Approx(1.0019e-12).epsilon(1e-4));
    CHECK(through_bf16(1e-13) == doctest::Approx(9.99e-14).epsilon(1e-3));
    CHECK(through_bf16(1.0001) == 1.0f);
    CHECK(through_bf16(1 + 0x1p-8) == 1.0f);  // a tie
    CHECK(through_bf16(1.00391) == 1.0078125f);
    CHECK(through_bf16(0.99805) == 1.0f);
    CHECK(through_bf16(0.998) == doctest::Approx(0.99609).epsilon(1e-5));
    CHECK(through_bf16(257) == 256.0f);
    CHECK(through_bf16(36.2) - through_bf16(36.0) == 0.25f);  // the grid that a loss of 36 lies on
    CHECK(through_bf16(1 - 2e-7) == 1.0f);
  }
  SUBCASE("f32") {
    CHECK(static_cast<float>(1e-45) == 0x1p-149f);
    CHECK(static_cast<float>(1e-46) == 0.0f);
    CHECK(static_cast<float>(1 - 2e-7) == doctest::Approx(0.99999982).epsilon(1e-8));
  }
  SUBCASE("limits of the dtypes") {
    CHECK(tiny(DType::f16) == 0x1p-14);
    CHECK(eps(DType::f16) == 0x1p-10);
    CHECK(lowest(DType::f16) == -65504.0);
    CHECK(lowest(DType::bf16) == value_of(bf16_format, 0xff7f));
    CHECK(eps(DType::bf16) == 0x1p-7);
  }
}

TEST_CASE("half: gradients between 2^-40 and 65519/65536 survive half at scale 65536") {
  CHECK(through_half(0x1.0p-40 * 65536) == 0x1p-24f);
  CHECK(through_half(9.09e-13 * 65536) == doctest::Approx(5.96e-8).epsilon(1e-3));
  CHECK(through_half(0.9997 * 65536) == 65504.0f);
  CHECK(through_half(0.99976 * 65536) == inf);
}
