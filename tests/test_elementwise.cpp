// What the op table cannot see of the elementwise rows: NaN, ties, poles, the exact figures of the precision contract,
// scalars that a dtype cannot hold, and what is kept for backward.
#include <doctest/doctest.h>

#include <cmath>
#include <limits>

#include "autograd/backward.h"
#include "autograd/node.h"
#include "core/messages.h"
#include "ops/operators.h"
#include "tests/shared.h"

using namespace mixtape;
using tests::contains;
using tests::error_text;

namespace {

constexpr double inf = std::numeric_limits<double>::infinity(), quiet_nan = std::numeric_limits<double>::quiet_NaN();
constexpr DType low_types[] = {DType::f16, DType::bf16};

using Numbers = std::vector<double>;

Tensor row(const Numbers& values, DType dtype = DType::f32) {
  return from(values, {static_cast<int64_t>(values.size())}, dtype);
}
Tensor leaf(const Numbers& values, DType dtype = DType::f32) { return row(values, dtype).set_requires_grad(); }

// d(sum of f(x)·seed)/dx.
template <class F>
Numbers gradient(const F& f, const Tensor& x, const Numbers& seed) {
  const Tensor y = f(x);
  return to_vector(autograd::grad({y}, {x}, {}, {from(seed, y.shape(), y.dtype())})[0]);
}
template <class F>
Numbers gradient(const F& f, const Tensor& x) {
  return gradient(f, x, Numbers(static_cast<size_t>(x.numel()), 1.0));
}

bool all_nan(const Tensor& t) {
  for (double v : to_vector(t)) {
    if (!std::isnan(v)) return false;
  }
  return true;
}

// The lines that a call reports.
template <class F>
std::vector<std::string> reports(const F& f) {
  std::vector<std::string> lines;
  const ReportGuard guard([&](std::string_view line) { lines.emplace_back(line); });
  f();
  return lines;
}

}  // namespace

TEST_CASE("elementwise: NaN passes through every op, in every dtype") {
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16, DType::f64}) {
    CAPTURE(name_of(dtype));
    const Tensor x = row({quiet_nan, -quiet_nan}, dtype), one = row({1, 1}, dtype);
    for (const auto& f : {ops::neg, ops::abs, ops::exp, ops::log, ops::sqrt, ops::rsqrt, ops::tanh, ops::sigmoid,
                          ops::relu, ops::gelu, ops::gelu_tanh, ops::silu}) {
      CHECK(all_nan(f(x)));
    }
    for (const auto& f : {ops::add, ops::sub, ops::mul, ops::div, ops::maximum, ops::minimum}) {
      CHECK(all_nan(f(x, one)));
      CHECK(all_nan(f(one, x)));
    }
    CHECK(all_nan(ops::pow(x, 2)));
    CHECK(all_nan(ops::clamp(x, -1, 1)));
  }
}

TEST_CASE("elementwise: NaN goes backward too, to the input that it came from") {
  for (const auto& f : {ops::relu, ops::abs, ops::gelu, ops::gelu_tanh, ops::silu, ops::tanh, ops::sigmoid}) {
    CHECK(std::isnan(gradient(f, leaf({quiet_nan}))[0]));
  }
  const Tensor a = leaf({quiet_nan, 1, quiet_nan}), b = leaf({1, quiet_nan, quiet_nan});
  for (const auto& f : {ops::maximum, ops::minimum}) {
    const Tensors both = autograd::grad({f(a, b)}, {a, b}, {}, {row({1, 1, 1})});
    CHECK(to_vector(both[0]) == Numbers{1, 0, 1});
    CHECK(to_vector(both[1]) == Numbers{0, 1, 1});
  }
}

TEST_CASE("elementwise: equal arguments of maximum and minimum share the gradient") {
  const Tensor a = leaf({1, 2, 0}), b = leaf({1, 1, -0.0});
  for (const auto& f : {ops::maximum, ops::minimum}) {
    const bool larger = to_vector(f(a, b))[1] == 2;
    const Tensors both = autograd::grad({f(a, b)}, {a, b}, {}, {row({4, 4, 4})});
    CHECK(to_vector(both[0]) == Numbers{2, larger ? 4.0 : 0.0, 2});
    CHECK(to_vector(both[1]) == Numbers{2, larger ? 0.0 : 4.0, 2});
  }
  CHECK(to_vector(ops::maximum(row({60000}, DType::f16), row({50000}, DType::f16)))[0] == 60000);  // no sum inside
}

TEST_CASE("elementwise: sub-gradients at kinks and at zero are what the rows say") {
  CHECK(gradient(ops::relu, leaf({0, -0.0, 2})) == Numbers{0, 0, 1});
  CHECK(gradient(ops::abs, leaf({0, -0.0, -2})) == Numbers{0, 0, -1});
  CHECK(gradient([](const Tensor& x) { return ops::clamp(x, -1, 1); }, leaf({-1, 1, 1.5, -1.5, 0})) ==
        Numbers{1, 1, 0, 0, 1});
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16, DType::f64}) {
    CHECK(gradient(ops::sqrt, leaf({0, 4}, dtype)) == Numbers{0, 0.25});
  }
  CHECK(gradient(ops::sqrt, leaf({1e-8}, DType::f16)) == Numbers{0});  // 1e-8 is 0 in half
  const auto power = [](double e) { return [e](const Tensor& x) { return ops::pow(x, e); }; };
  CHECK(gradient(power(0.5), leaf({0, 4})) == Numbers{0, 0.25});
  CHECK(gradient(power(0), leaf({0, 4})) == Numbers{0, 0});
  CHECK(gradient(power(1), leaf({0, -4})) == Numbers{1, 1});
  CHECK(gradient(power(2), leaf({0, -4})) == Numbers{0, -8});
  CHECK(gradient(power(3), leaf({0, -4})) == Numbers{0, 48});
}

TEST_CASE("elementwise: second gradients at those points are finite") {
  const auto second = [](const auto& f, double at) {
    const Tensor x = leaf({at}, DType::f64);
    const Tensor first = autograd::grad({f(x)}, {x}, {.create_graph = true}, {row({1}, DType::f64)})[0];
    const Tensor g = autograd::grad({first}, {x}, {}, {row({1}, DType::f64)})[0];
    return to_vector(g)[0];
  };
  CHECK(second(ops::sqrt, 0) == 0);
  CHECK(second(ops::sqrt, 4) == doctest::Approx(-1.0 / 32));
  for (const double exponent : {0.5, 1.5, 1.0, 0.0, 3.0}) {
    CHECK(second([&](const Tensor& x) { return ops::pow(x, exponent); }, 0) == 0);
  }
  CHECK(second([](const Tensor& x) { return ops::pow(x, 2); }, 0) == 2);
  CHECK(second(ops::gelu, 1000) == 0);
  CHECK(second(ops::gelu_tanh, -1000) == 0);
}

TEST_CASE("elementwise: pow takes negative bases to integer powers") {
  const Tensor x = row({-2, -0.5, 0, 3});
  CHECK(to_vector(ops::pow(x, 3)) == Numbers{-8, -0.125, 0, 27});
  const Numbers inverse = to_vector(ops::pow(x, -2));
  CHECK(Numbers(inverse.begin(), inverse.end() - 1) == Numbers{0.25, 4, inf});
  CHECK(inverse[3] == doctest::Approx(1.0 / 9).epsilon(1e-7));
  CHECK(to_vector(ops::pow(x, 0)) == Numbers{1, 1, 1, 1});
  CHECK(std::isnan(to_vector(ops::pow(x, 0.5))[0]));
}

TEST_CASE("elementwise: both GELUs and SiLU are right far out, forward and backward") {
  const auto reference = [](const auto& f, double x) {
    const Tensor t = leaf({x}, DType::f64);
    return std::pair{to_vector(f(t))[0], gradient(f, t)[0]};
  };
  const auto tanh_gelu = [](double x) {
    const double u = std::sqrt(2 / 3.14159265358979323846) * (x + 0.044715 * x * x * x);
    return x / (1 + std::exp(-2 * u));
  };
  for (const double magnitude : {4.0, 6.0, 11.0, 41.0, 150.0, 256.0, 1000.0}) {
    for (const double x : {magnitude, -magnitude}) {
      CAPTURE(x);
      CHECK(reference(ops::gelu_tanh, x).first == doctest::Approx(tanh_gelu(x)).epsilon(1e-12));
      CHECK(reference(ops::gelu, x).first == doctest::Approx(x * 0.5 * std::erfc(-x / std::sqrt(2.0))).epsilon(1e-12));
      for (const auto& f : {ops::gelu, ops::gelu_tanh, ops::silu}) {
        const auto [y, slope] = reference(f, x);
        for (const DType dtype : {DType::f32, DType::f16, DType::bf16}) {
          CAPTURE(name_of(dtype));
          const double tolerance = 0.6 * eps(dtype) + 16 * eps(DType::f32), floor = tiny(dtype) * eps(dtype);
          const Tensor t = leaf({x}, dtype);
          CHECK(std::abs(to_vector(f(t))[0] - y) <= tolerance * std::abs(y) + floor);
          CHECK(std::abs(gradient(f, t)[0] - slope) <= tolerance * std::max(std::abs(slope), std::abs(y)) + floor);
        }
      }
      if (magnitude < 11) continue;
      for (const auto& f : {ops::gelu, ops::gelu_tanh}) {
        CHECK(to_vector(f(row({x}, DType::f16)))[0] == (x > 0 ? x : 0));
        CHECK(gradient(f, leaf({x}, DType::f16))[0] == (x > 0 ? 1 : 0));
      }
    }
  }
}

TEST_CASE("elementwise: no finite input, nor an infinite one, gives NaN in an activation or its gradient") {
  const Numbers far = {1e4, -1e4, 1e19, -1e19, 3e38, -3e38, inf, -inf, 1e-40, -1e-40};
  for (const auto& f : {ops::relu, ops::gelu, ops::gelu_tanh, ops::silu, ops::tanh, ops::sigmoid}) {
    for (const DType dtype : {DType::f32, DType::bf16, DType::f16, DType::f64}) {
      const Tensor x = leaf(far, dtype);
      for (double v : to_vector(f(x))) CHECK(!std::isnan(v));
      for (double v : gradient(f, x)) CHECK((v == v && v >= -0.2 && v <= 1.2));
    }
  }
}

TEST_CASE("elementwise: slopes of tanh and sigmoid keep their accuracy where the value has none left in 16 bits") {
  for (const DType dtype : low_types) {
    CHECK(gradient(ops::tanh, leaf({4}, dtype))[0] == doctest::Approx(1.3409507e-3).epsilon(eps(dtype)));
    CHECK(gradient(ops::sigmoid, leaf({9}, dtype))[0] == doctest::Approx(1.2337935e-4).epsilon(eps(dtype)));
  }
}

TEST_CASE("elementwise: an infinite gradient stays in its branch of where and off masked places") {
  const Tensor condition = from_bools({true, false}, {2});
  const Tensor a = leaf({1, 2}), b = leaf({3, 4});
  const Tensors both = autograd::grad({ops::where(condition, a, b)}, {a, b}, {}, {row({inf, quiet_nan})});
  CHECK(to_vector(both[0]) == Numbers{inf, 0});
  CHECK(to_vector(both[1])[0] == 0);
  CHECK(gradient([&](const Tensor& x) { return ops::masked_fill(x, condition, 5); }, leaf({1, 2}), {inf, 7}) ==
        Numbers{0, 7});
  CHECK(to_vector(ops::masked_fill(row({quiet_nan, 2}), condition, -inf)) == Numbers{-inf, 2});
}

TEST_CASE("elementwise: the figures of the precision contract that single ops give") {
  const auto h = [](double v) { return row({v}, DType::f16); };
  const auto b = [](double v) { return row({v}, DType::bf16); };
  const auto value = [](const Tensor& t) { return to_vector(t)[0]; };
  CHECK(value(h(-65504) + h(-16)) == -inf);
  CHECK(value(h(-65504) + h(-15.99)) == -65504);
  CHECK(value(h(-65504) * 2) == -inf);
  CHECK(value(b(0.02) + b(2e-5)) == value(b(0.02)));
  CHECK(value(h(255.8) * h(255.8)) == 65408);
  CHECK(value(h(256) * h(256)) == inf);
  CHECK(value(ops::pow(h(40), 3)) == 64000);
  CHECK(value(ops::pow(h(41), 3)) == inf);
  // f32 input, one rounding at the end
  const auto rounded = [&](double x) { return value(copy_of(ops::pow(row({x}), 2), DType::f16)); };
  CHECK(rounded(255.8) == 65440);
  CHECK(rounded(256) == inf);
  CHECK(rounded(300) == inf);
  const auto sigmoid = [&](double x) { return value(copy_of(ops::sigmoid(row({x})), DType::f16)); };
  CHECK(sigmoid(8.317) == doctest::Approx(0.99951).epsilon(1e-5));
  CHECK(sigmoid(8.318) == 1);
  CHECK(sigmoid(-17.32) == 0x1p-24);
  CHECK(sigmoid(-17.33) == 0);
  CHECK(value(ops::sigmoid(h(8.317))) == 1);  // 8.317 and 8.318 are one half
}

TEST_CASE("elementwise: sums in 16 bits stall where the contract says") {
  const auto stalls_at = [](double term, DType dtype, int terms) {
    Tensor sum = scalar(0, dtype);
    const Tensor step = scalar(term, dtype);
    for (int i = 0; i < terms; ++i) sum = sum + step;
    return sum.item();
  };
  CHECK(stalls_at(1, DType::f16, 2100) == 2048);
  CHECK(stalls_at(1, DType::bf16, 300) == 256);
  CHECK(stalls_at(0.01, DType::f16, 4096) == 32);
  Tensor weight = scalar(1, DType::bf16);
  for (int i = 0; i < 100; ++i) weight = weight - 6e-4;
  CHECK(weight.item() == 1);
}

TEST_CASE("elementwise: the gradient of a broadcast 16-bit input is summed before it is rounded") {
  const int64_t n = 4096;
  for (const DType dtype : low_types) {
    const Tensor x = full({n}, 0.01, dtype), s = row({1}, dtype).set_requires_grad();
    const double exact = static_cast<double>(n) * to_vector(x)[0];
    for (const auto& f : {ops::mul, ops::add}) {
      const Tensor y = f(x, s);
      const double got = autograd::grad({y}, {s}, {}, {full({n}, f == ops::add ? 0.01 : 1, dtype)})[0].item();
      CHECK(got == doctest::Approx(exact).epsilon(eps(dtype)));
    }
  }
}

TEST_CASE("elementwise: a product keeps only what a gradient will read") {
  const auto kept = [](const Tensor& y, int i) { return static_cast<bool>(y.node()->inputs[i].storage); };
  const Tensor a = leaf({1, 2}), b = leaf({3, 4}), c = row({5, 6});
  CHECK(kept(ops::mul(a, b), 0));
  CHECK(kept(ops::mul(a, b), 1));
  CHECK(!kept(ops::mul(a, c), 0));  // a scale does not keep what it scales
  CHECK(kept(ops::mul(a, c), 1));
  CHECK(!kept(a * 0.125, 0));
  CHECK(!kept(ops::add(a, b), 0));
  CHECK(kept(ops::mul(a, a), 0));
  CHECK(gradient([](const Tensor& x) { return ops::mul(x, x); }, a) == Numbers{2, 4});
}

TEST_CASE("elementwise: the gradient of a sum is handed on without a copy") {
  const Tensor a = leaf({1, 2}), b = leaf({3, 4}), seed = row({5, 6});
  const Tensors both = autograd::grad({a + b}, {a, b}, {}, {seed});
  CHECK(both[0].storage().same_as(seed.storage()));
}

TEST_CASE("operators: a host number never promotes") {
  const Tensor x = row({1, 2}, DType::f16);
  for (const Tensor& y : {x + 0.0001, x - 1, x * 3, x / 3, 1 + x, 1 - x, 2 * x, 2 / x, -x}) {
    CHECK(y.dtype() == DType::f16);
  }
  CHECK(to_vector(x + 0.0001)[0] == 1);
  CHECK(to_vector(1 - x) == Numbers{0, -1});
  CHECK(to_vector(2 / x) == Numbers{2, 1});
  CHECK(to_vector(x - 1) == Numbers{0, 1});
  CHECK(to_vector(-x) == Numbers{-1, -2});
  CHECK((row({1}) * row({2}, DType::bf16)).dtype() == DType::f32);  // two tensors do
  CHECK((x + row({1, 1}, DType::bf16)).dtype() == DType::f32);
  CHECK(contains(error_text([] { return from_ints({1}, {1}) + 1; }), "E-DTYPE"));
}

TEST_CASE("scalars: one that becomes 0 or infinite is reported once, with op and place") {
  const Tensor x = row({1, 2}, DType::f16), mask = from_bools({true, false}, {2});
  const auto lines = reports([&] {
    const Scope outer("encoder"), inner("layer.0");
    for (int i = 0; i < 3; ++i) ops::masked_fill(x, mask, -1e9);
  });
  REQUIRE(lines.size() == 1);
  CHECK(lines[0] == "masked_fill: value -1e+09 becomes -inf in f16 (in encoder.layer.0)");
  CHECK(reports([&] { x + 1e-8; }) == std::vector<std::string>{"add: scalar 1e-08 becomes 0 in f16"});
  CHECK(reports([&] { x * 65520; }) == std::vector<std::string>{"mul: scalar 65520 becomes inf in f16"});
  CHECK(reports([&] { ops::clamp(x, 1e-12, 1e6); }) ==
        std::vector<std::string>{"clamp: low 1e-12 becomes 0 in f16", "clamp: high 1e+06 becomes inf in f16"});
  CHECK(reports([&] { ops::pow(x, 1e-50); }).size() == 1);
  const auto places = reports([&] {
    ops::masked_fill(x, mask, -1e9);
    const Scope elsewhere("head");
    ops::masked_fill(x, mask, -1e9);
    ops::masked_fill(x, mask, -1e10);
  });
  CHECK(places.size() == 3);
}

TEST_CASE("scalars: what a dtype holds, and 0 and infinities that were meant, are not reported") {
  const Tensor x = row({1, 2}, DType::f16), f = row({1, 2}), mask = from_bools({true, false}, {2});
  CHECK(reports([&] {
          ops::masked_fill(x, mask, -inf);
          ops::masked_fill(x, mask, 0);
          ops::masked_fill(x, mask, -65504);
          ops::masked_fill(f, mask, -1e9);
          ops::masked_fill(row({1, 2}, DType::bf16), mask, -1e30);
          ops::clamp(x, 0, inf);
          x * 1e-7;
          x + 0.0;
        }).empty());
  CHECK(reports([&] { ops::masked_fill(f, mask, 1e-46); }).size() == 1);
}
