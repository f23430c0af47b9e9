// The float functions of core/maths.h against double, over every 997th bit pattern: all exponents, both signs,
// subnormal numbers, infinities and NaNs among them. The bounds are the maxima over all floats whose magnitude lies
// between 2^-12 and 160, where every function is curved, rounded up.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <sstream>
#include <string>

#include "core/maths.h"
#include "tools/ulp.h"

using namespace mixtape;
using tools::error_in_ulp;

namespace {

constexpr float inf = std::numeric_limits<float>::infinity(), not_a_number = std::numeric_limits<float>::quiet_NaN();

float float_of(uint32_t bits) { return __builtin_bit_cast(float, bits); }
uint32_t bits_of(float x) { return __builtin_bit_cast(uint32_t, x); }

template <class F, class Exact>
std::string worst_error(double bound, const F& f, const Exact& exact, uint64_t stride = 997) {
  double worst = 0;
  float at = 0;
  for (uint64_t bits = 0; bits < uint64_t{1} << 32; bits += stride) {
    const float x = float_of(static_cast<uint32_t>(bits));
    const double error = error_in_ulp(f(x), exact(static_cast<double>(x)));
    if (!(error <= worst)) worst = error, at = x;
  }
  std::ostringstream text;
  if (!(worst <= bound)) text << worst << " ulp at " << at << ": " << f(at) << ", exact " << exact(at);
  return text.str();
}

template <class F>
bool is_odd(const F& f) {
  for (uint64_t bits = 0; bits <= 0x7f800000u; bits += 991) {
    const float x = float_of(static_cast<uint32_t>(bits));
    if (bits_of(f(-x)) != (bits_of(f(x)) ^ 0x80000000u)) return false;
  }
  return true;
}

double exact_sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
double exact_cdf(double x) { return 0.5 * std::erfc(-x * 0.70710678118654752440); }

template <class F>
void check_pow(double exponent, const F& f) {
  CAPTURE(exponent);
  CHECK(worst_error(
            0.51, f, [&](double x) { return std::isnan(x) ? x : std::pow(x, exponent); }, 997 * 13) == "");
}

// Every function, at a stride: also run over all 2^32 floats below.
void check_all(uint64_t stride) {
  CHECK(worst_error(
            1.1, [](float x) { return maths::exp(x); }, [](double x) { return std::exp(x); }, stride) == "");
  CHECK(worst_error(
            1.1, [](float x) { return maths::log(x); }, [](double x) { return std::log(x); }, stride) == "");
  CHECK(worst_error(
            1.6, [](float x) { return maths::log1p(x); }, [](double x) { return std::log1p(x); }, stride) == "");
  CHECK(worst_error(
            2.7, [](float x) { return maths::tanh(x); }, [](double x) { return std::tanh(x); }, stride) == "");
  CHECK(worst_error(
            2.5, [](float x) { return maths::sigmoid(x); }, exact_sigmoid, stride) == "");
  CHECK(worst_error(
            1.5, [](float x) { return maths::erf(x); }, [](double x) { return std::erf(x); }, stride) == "");
  CHECK(worst_error(
            4.6, [](float x) { return maths::normal_cdf(x); }, exact_cdf, stride) == "");
  CHECK(worst_error(
            1.6, [](float x) { return maths::rsqrt(x); }, [](double x) { return 1 / std::sqrt(x); }, stride) == "");
}

}  // namespace

TEST_CASE("maths: errors over every 997th float") { check_all(997); }

// Half an hour: mixtape_tests --no-skip --test-case='maths: errors over every float'
TEST_CASE("maths: errors over every float" * doctest::skip()) { check_all(1); }

TEST_CASE("maths: pow is within half an ulp of IEEE pow, for every kind of exponent") {
  for (const double exponent : {2.0, 3.0, -1.0, 0.5, -0.5, 7.5, -3.25, 30.0, -31.0, 0.001, 1.0001, 1.0, 0.0, 1e-50}) {
    check_pow(exponent, [&](float x) { return maths::pow(x, exponent); });
  }
}

TEST_CASE("maths: pow at its edges") {
  CHECK(maths::pow(0.0f, 0.0) == 1.0f);
  CHECK(maths::pow(inf, 0.0) == 1.0f);
  CHECK(maths::pow(-inf, 0.0) == 1.0f);
  CHECK(std::isnan(maths::pow(not_a_number, 0.0)));
  CHECK(std::isnan(maths::pow(static_cast<double>(not_a_number), 0.0)));
  CHECK(maths::pow(0.0f, -2.0) == inf);
  CHECK(maths::pow(-0.0f, -3.0) == -inf);
  CHECK(bits_of(maths::pow(-0.0f, 3.0)) == 0x80000000u);
  CHECK(bits_of(maths::pow(-0.0f, 2.0)) == 0u);
  CHECK(maths::pow(-2.0f, 3.0) == -8.0f);
  CHECK(maths::pow(-2.0f, -2.0) == 0.25f);
  CHECK(std::isnan(maths::pow(-2.0f, 0.5)));
  CHECK(std::isnan(maths::pow(not_a_number, 2.0)));
  CHECK(maths::pow(-inf, 3.0) == -inf);
  CHECK(maths::pow(-inf, -2.0) == 0.0f);
  CHECK(maths::pow(inf, 0.5) == inf);
  CHECK(maths::pow(41.0f, 3.0) == 68921.0f);
  CHECK(maths::pow(0x1p-149f, 0.5) == doctest::Approx(3.743392e-23));
}

TEST_CASE("maths: exp at the ends of its range") {
  CHECK(maths::exp(0.0f) == 1.0f);
  CHECK(maths::exp(88.722839f) == inf);
  CHECK(maths::exp(88.722831f) < inf);
  CHECK(maths::exp(inf) == inf);
  CHECK(maths::exp(-inf) == 0.0f);
  CHECK(maths::exp(-103.9f) == 0x1p-149f);
  CHECK(maths::exp(-103.98f) == 0.0f);
  CHECK(std::isnan(maths::exp(not_a_number)));
}

TEST_CASE("maths: log at the ends of its range") {
  CHECK(maths::log(1.0f) == 0.0f);
  CHECK(maths::log(0.0f) == -inf);
  CHECK(maths::log(-0.0f) == -inf);
  CHECK(maths::log(inf) == inf);
  CHECK(std::isnan(maths::log(-1.0f)));
  CHECK(std::isnan(maths::log(-inf)));
  CHECK(std::isnan(maths::log(not_a_number)));
  CHECK(maths::log(0x1p-149f) == doctest::Approx(-103.27893).epsilon(1e-7));  // f32(1e-45)
  CHECK(maths::log1p(-1.0f) == -inf);
  CHECK(maths::log1p(inf) == inf);
  CHECK(std::isnan(maths::log1p(-1.5f)));
  CHECK(maths::log1p(1e-30f) == 1e-30f);
}

TEST_CASE("maths: tanh and erf are odd, bit for bit, and bounded") {
  CHECK(is_odd([](float x) { return maths::tanh(x); }));
  CHECK(is_odd([](float x) { return maths::erf(x); }));
  CHECK(maths::tanh(inf) == 1.0f);
  CHECK(maths::tanh(1e-40f) == 1e-40f);
  CHECK(maths::erf(-inf) == -1.0f);
  float largest = 0;
  for (float x = 0; x < 20; x += 1e-4f) largest = std::max({largest, maths::tanh(x), maths::erf(x)});
  CHECK(largest == 1.0f);
  CHECK(std::isnan(maths::tanh(not_a_number)));
  CHECK(std::isnan(maths::erf(not_a_number)));
}

TEST_CASE("maths: sigmoid and the normal distribution keep their small side and end at 0 and 1") {
  CHECK(maths::sigmoid(-100.0f) == doctest::Approx(3.7200760e-44).epsilon(0.02));  // subnormal: 27 units of 2^-149
  CHECK(maths::sigmoid(-inf) == 0.0f);
  CHECK(maths::sigmoid(inf) == 1.0f);
  CHECK(maths::sigmoid(0.0f) == 0.5f);
  CHECK(maths::normal_cdf(0.0f) == 0.5f);
  CHECK(maths::normal_cdf(-inf) == 0.0f);
  CHECK(maths::normal_cdf(inf) == 1.0f);
  CHECK(maths::normal_cdf(-10.0f) == doctest::Approx(7.61985302416e-24).epsilon(3e-7));
  CHECK(std::isnan(maths::sigmoid(not_a_number)));
  CHECK(std::isnan(maths::normal_cdf(not_a_number)));
}

TEST_CASE("maths: the larger and the smaller of two, NaN in either place") {
  CHECK(maths::max(1.0f, 2.0f) == 2.0f);
  CHECK(maths::min(1.0f, 2.0f) == 1.0f);
  CHECK(maths::max(-inf, inf) == inf);
  for (const auto& f : {maths::max<float>, maths::min<float>}) {
    CHECK(std::isnan(f(not_a_number, 1.0f)));
    CHECK(std::isnan(f(1.0f, not_a_number)));
    CHECK(std::isnan(f(not_a_number, inf)));
  }
}
