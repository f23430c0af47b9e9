// map on the device: every arity, and every way in which operands can lie.
#include <doctest/doctest.h>

#include "core/kernels/layout.h"
#include "ops/dropout.h"
#include "ops/gelu.h"
#include "tests/simt/both.cuh"

namespace mixtape::simt_tests {
namespace {

struct GeluOf {
  template <class M>
  MIXTAPE_HD M operator()(M x) const {
    return ops::gelu_value(x);
  }
};
struct GeluGradient {
  template <class M>
  MIXTAPE_HD M operator()(M dy, M x) const {
    return dy * ops::gelu_slope(x);
  }
};
struct BiasGelu {
  template <class M>
  MIXTAPE_HD M operator()(M x, M bias) const {
    return ops::gelu_value(x + bias);
  }
};
struct Chosen {
  template <class M>
  MIXTAPE_HD M operator()(M condition, M a, M b) const {
    return maths::select(condition > M(0), a, b);
  }
};
struct One {
  template <class M>
  MIXTAPE_HD M operator()(M x) const {
    return x * M(0) + M(1);
  }
};

void unary_of(const Tensor& x, DType out) {
  const Pair in(x), y(x.shape(), out);
  check_both("gelu", {&y}, 0, [&](const auto& on) { on.map(GeluOf{}, on(y), on(in)); });
}

}  // namespace

TEST_CASE("one input: empty, odd, more than a grid takes at once") {
  for (const DType dtype : float_types) {
    for (const Shape& shape : {Shape{}, Shape{0}, Shape{1}, Shape{7}, Shape{4}, Shape{3, 5}, Shape{2, 3, 4},
                               Shape{1031}, Shape{8192}, Shape{3, 1027}}) {
      unary_of(numbers(shape, dtype, 1, 3.0), dtype);
    }
  }
}

TEST_CASE("a map converts between dtypes, rounding once") {
  for (const DType from : float_types) {
    for (const DType to : float_types) unary_of(numbers({3, 40}, from, 2, 3.0), to);
  }
  const Pair flags(from_bools({true, false, true, true}, {4})), integers(ids({4}, 9, 3)), y({4}, DType::f32);
  check_both("where", {&y}, 0, [&](const auto& on) { on.map(Chosen{}, on(y), on(flags), on(integers), on(integers)); });
}

TEST_CASE("two inputs that broadcast to each other") {
  const std::pair<Shape, Shape> shapes[] = {
      {{3, 5}, {5}}, {{3, 1}, {1, 5}},   {{2, 3, 4}, {3, 1}}, {{131}, {}},     {{}, {3, 5}},
      {{0, 3}, {3}}, {{3, 132}, {3, 1}}, {{33}, {5, 33}},     {{6, 64}, {64}}, {{2, 5, 1}, {2, 1, 64}}};
  for (const DType dtype : float_types) {
    for (const auto& [a, b] : shapes) {
      Shape whole;
      REQUIRE(broadcast_shapes(a, b, whole));
      const Pair left(numbers(a, dtype, 4)), right(numbers(b, dtype, 5)), y(whole, dtype);
      check_both("gelu", {&y}, 0, [&](const auto& on) { on.map(GeluGradient{}, on(y), on(left), on(right)); });
    }
  }
}

TEST_CASE("bias and GELU in one pass") {
  for (const DType dtype : float_types) {
    const Pair x(numbers({9, 96}, dtype, 6, 2.0)), bias(numbers({96}, DType::f32, 7)), y({9, 96}, dtype);
    check_both("bias + gelu", {&y}, 0, [&](const auto& on) { on.map(BiasGelu{}, on(y), on(x), on(bias)); });
  }
}

TEST_CASE("three inputs, one of them a mask") {
  std::vector<bool> bits;
  for (int i = 0; i < 40; ++i) bits.push_back(i % 3 != 0);
  for (const DType dtype : float_types) {
    const Pair mask(from_bools(bits, {1, 40})), a(numbers({6, 40}, dtype, 8)), b(numbers({6, 1}, dtype, 9));
    const Pair y({6, 40}, dtype);
    check_both("where", {&y}, 0, [&](const auto& on) { on.map(Chosen{}, on(y), on(mask), on(a), on(b)); });
  }
}

TEST_CASE("strided, transposed and unaligned operands") {
  for (const DType dtype : float_types) {
    const Pair x(numbers({40, 24}, dtype, 10)), y({24, 40}, dtype), whole({40, 24}, dtype);
    check_both("gelu", {&y}, 0, [&](const auto& on) { on.map(GeluOf{}, on(y), kernels::transposed(on(x))); });
    check_both("gelu", {&whole}, 0, [&](const auto& on) {  // every other column, starting at an odd one
      on.map(One{}, on(whole), on(x));
      on.map(GeluOf{}, kernels::section(on(whole), 1, 1, 11, 2), kernels::section(on(x), 1, 2, 11, 2));
    });
    check_both("gelu", {&whole}, 0, [&](const auto& on) {  // four neighbours, but not on a boundary of four
      on.map(One{}, on(whole), on(x));
      on.map(GeluOf{}, kernels::section(on(whole), 1, 1, 8), kernels::section(on(x), 1, 3, 8));
    });
  }
}

TEST_CASE("in place") {
  for (const DType dtype : float_types) {
    const Pair x(numbers({5, 33}, dtype, 11));
    check_both("gelu", {&x}, 0, [&](const auto& on) { on.map(GeluOf{}, on(x), on(x)); });
  }
}

TEST_CASE("dropout draws on the device what it draws on the CPU") {
  const RngCoordinates at{7, rng_stream::dropout, 3, 1, 2};
  for (const DType dtype : float_types) {
    for (const Shape& shape : {Shape{7}, Shape{3, 33}, Shape{2, 5, 64}, Shape{1031}}) {
      const Pair x(numbers(shape, dtype, 12)), y(shape, dtype);
      check_both("dropout", {&y}, 0, [&](const auto& on) { on.map(ops::DropoutFormula(0.3), on(y), on(x), at); });
    }
    const Pair x(numbers({12, 8}, dtype, 13)), y({8, 12}, dtype);
    check_both("dropout", {&y}, 0,
               [&](const auto& on) { on.map(ops::DropoutFormula(0.3), on(y), kernels::transposed(on(x)), at); });
  }
}

}  // namespace mixtape::simt_tests
