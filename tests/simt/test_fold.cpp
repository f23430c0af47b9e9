// fold on the device: sums along rows and down columns, of one piece and of many.
#include <doctest/doctest.h>

#include "ops/layer_norm.h"
#include "tests/simt/both.cuh"

namespace mixtape::simt_tests {
namespace {

using kernels::Identity;

struct Product {
  template <class M>
  MIXTAPE_HD M operator()(M a, M b) const {
    return a * b;
  }
};

}  // namespace

TEST_CASE("sums over axes") {
  const std::pair<Shape, Shape> shapes[] = {{{7}, {}},           {{3, 5}, {}},
                                            {{3, 5}, {3, 1}},    {{3, 5}, {5}},
                                            {{0, 4}, {4}},       {{4, 0}, {4, 1}},
                                            {{2, 3, 4}, {3, 1}}, {{2, 3, 40}, {40}},
                                            {{70, 96}, {96}},    {{300, 33}, {33}},
                                            {{2, 9000}, {2, 1}}, {{9000, 2}, {2}},
                                            {{5000}, {}},        {{2, 70, 3, 40}, {3, 40}},
                                            {{4, 5}, {4, 5}},    {{3, 130, 1}, {3, 1, 1}}};
  for (const DType dtype : float_types) {
    for (const auto& pair : shapes) {
      const Shape &full = pair.first, &out = pair.second;  // clang 14 captures no structured bindings
      const Pair x(numbers(full, dtype, 1, 1.0, 0.5)), y(out, DType::f32);
      const double terms = static_cast<double>(full.numel()) / static_cast<double>(std::max<int64_t>(1, out.numel()));
      check_both("sum", {&y}, terms + 1, [&](const auto& on) { on.fold(Identity{}, full, on(y), on(x)); });
    }
  }
}

TEST_CASE("a sum of products whose operands broadcast, stored in 16 bits") {
  for (const DType dtype : float_types) {
    const Pair a(numbers({64, 48}, dtype, 2)), b(numbers({48}, DType::f32, 3)), down({48}, dtype),
        along({64, 1}, dtype);
    check_both("sum", {&down}, 64, [&](const auto& on) { on.fold(Product{}, Shape{64, 48}, on(down), on(a), on(b)); });
    check_both("sum", {&along}, 48, [&](const auto& on) {
      on.fold(Product{}, Shape{64, 48}, on(along), on(a), on(b));
    });
  }
}

TEST_CASE("gradients of gamma and beta of layer_norm") {
  for (const DType dtype : float_types) {
    const Shape shape{37, 96}, row{37, 1};
    const Pair dy(numbers(shape, dtype, 4)), x(numbers(shape, dtype, 5)), mean(numbers(row, DType::f32, 6)),
        rstd(numbers(row, DType::f32, 7, 0.1, 1.0)), dgamma({96}, DType::f32), dbeta({96}, DType::f32);
    check_both("layer_norm", {&dgamma, &dbeta}, 37, [&](const auto& on) {
      on.fold(ops::GammaTerm{}, shape, on(dgamma), on(dy), on(x), on(mean), on(rstd));
      on.fold(Identity{}, shape, on(dbeta), on(dy));
    });
  }
}

}  // namespace mixtape::simt_tests
