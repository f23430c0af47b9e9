// The fused rows of an encoder layer on the device, with the CPU's own formulas: sums over rows, rows of a table, and
// random draws among the operands.
#include <doctest/doctest.h>

#include "core/kernels/layout.h"
#include "ops/dropout_add_layer_norm.h"
#include "ops/embed_layer_norm.h"
#include "ops/gelu_pass.h"
#include "tests/simt/both.cuh"

namespace mixtape::simt_tests {
namespace {

using kernels::as_column;
using kernels::picked_rows;
using kernels::random_rows;
using kernels::sum_rows_into;
using kernels::write;

const RngCoordinates at{7, rng_stream::dropout, 3, 1, 2};
const Shape shapes[] = {{3, 8}, {37, 7}, {2, 3, 64}, {5, 130}, {18, 96}, {0, 4}};

int64_t rows_of(const Shape& shape) { return shape.back() == 0 ? 0 : shape.numel() / shape.back(); }
double terms_of(const Shape& shape) { return static_cast<double>(shape.back() + rows_of(shape)); }
Shape column_of(Shape shape) {
  shape[shape.rank() - 1] = 1;
  return shape;
}

}  // namespace

TEST_CASE("the way back through GELU and its bias, in place") {
  for (const DType dtype : float_types) {
    for (const Shape& shape : shapes) {
      const int64_t n = shape.back();
      const Pair u(numbers(shape, dtype, 1, 2.0)), du(numbers(shape, dtype, 2)), h(shape, dtype),
          dbias({n}, DType::f32);
      check_both("feed_forward", {&h, &du, &dbias}, terms_of(shape), [&](const auto& on) {
        on.rows(ops::GeluPass{}, shape, write(on(h)), write(on(du)), sum_rows_into(on(dbias)), on(u), on(du));
      });
    }
  }
}

TEST_CASE("dropout, residual and layer_norm in one pass each way") {
  for (const DType dtype : float_types) {
    for (const Shape& shape : shapes) {
      for (const double p : {0.0, 0.3}) {
        const int64_t n = shape.back();
        const ops::Sum sum{ops::DropoutFormula(p)};
        const Pair x(numbers(shape, dtype, 3)), r(numbers(shape, dtype, 4, 1.0, 0.5)),
            gamma(numbers({n}, DType::f32, 5, 0.2, 1.0)), beta(numbers({n}, DType::f32, 6)),
            dy(numbers(shape, dtype, 7));
        const Pair y(shape, dtype), mean(column_of(shape), DType::f32), rstd(column_of(shape), DType::f32);
        check_both("dropout_add_layer_norm", {&y, &mean, &rstd}, terms_of(shape), [&](const auto& on) {
          on.rows(ops::NormalizeSum{sum, {1e-5}}, shape, write(on(y)), write(on(mean)), write(on(rstd)), on(x), on(r),
                  on(gamma), on(beta), random_rows(at));
        });
        const Pair mu(from(mean.host_values(), column_of(shape))), scale(from(rstd.host_values(), column_of(shape)));
        const Pair dx(shape, dtype), dr(shape, dtype), dgamma({n}, DType::f32), dbeta({n}, DType::f32);
        check_both("dropout_add_layer_norm", {&dx, &dr, &dgamma, &dbeta}, terms_of(shape), [&](const auto& on) {
          on.rows(ops::NormalizeSumGrad{sum}, shape, write(on(dx)), write(on(dr)), sum_rows_into(on(dgamma)),
                  sum_rows_into(on(dbeta)), on(dy), on(x), on(r), on(mu), on(scale), on(gamma), random_rows(at));
        });
      }
    }
  }
}

TEST_CASE("packed rows draw at their places") {
  const Shape shape{4, 64};
  for (const DType dtype : float_types) {
    const Pair x(numbers(shape, dtype, 8)), r(numbers(shape, dtype, 9)), gamma(numbers({64}, DType::f32, 10)),
        beta(numbers({64}, DType::f32, 11)), places(from_ints({9, 2, 2, 30}, {4})), y(shape, dtype);
    const Pair mean({4, 1}, DType::f32), rstd({4, 1}, DType::f32);
    check_both("dropout_add_layer_norm", {&y}, 64, [&](const auto& on) {
      on.rows(ops::NormalizeSum{{ops::DropoutFormula(0.5)}, {1e-5}}, shape, write(on(y)), write(on(mean)),
              write(on(rstd)), on(x), on(r), on(gamma), on(beta), random_rows(at, as_column(on(places))));
    });
  }
}

TEST_CASE("rows of three tables, their sum normalised, and back") {
  const Shape shape{3, 6, 64}, rows{3, 6, 1};
  const ops::DropoutFormula keep(0.2);
  for (const DType dtype : float_types) {
    const Pair words(numbers({40, 64}, DType::f32, 12)), types(numbers({2, 64}, DType::f32, 13)),
        positions(numbers({6, 64}, DType::f32, 14)), word_ids(ids({3, 6}, 40, 15)), type_ids(ids({3, 6}, 2, 16)),
        position_ids(from_ints({0, 1, 2, 3, 4, 5}, {1, 6})), gamma(numbers({64}, DType::f32, 17, 0.2, 1.0)),
        beta(numbers({64}, DType::f32, 18)), dy(numbers(shape, dtype, 19));
    const Pair y(shape, dtype), mean(rows, DType::f32), rstd(rows, DType::f32);
    check_both("embed_layer_norm", {&y, &mean, &rstd}, 64, [&](const auto& on) {
      on.rows(ops::NormalizeThreeRows{{}, {1e-5}, keep}, shape, write(on(y)), write(on(mean)), write(on(rstd)),
              picked_rows(on(words), as_column(on(word_ids))), picked_rows(on(types), as_column(on(type_ids))),
              picked_rows(on(positions), as_column(on(position_ids))), on(gamma), on(beta), random_rows(at));
    });
    const Pair mu(from(mean.host_values(), rows)), scale(from(rstd.host_values(), rows));
    const Pair dz(shape, DType::f32), kept(shape, DType::f32), dgamma({64}, DType::f32), dbeta({64}, DType::f32);
    check_both("embed_layer_norm", {&dz, &dgamma, &dbeta}, 64 + 18, [&](const auto& on) {
      on.rows(ops::NormalizeThreeRowsGrad{{}, keep}, shape, write(on(dz)), write(on(kept)), sum_rows_into(on(dgamma)),
              sum_rows_into(on(dbeta)), on(dy), picked_rows(on(words), as_column(on(word_ids))),
              picked_rows(on(types), as_column(on(type_ids))), picked_rows(on(positions), as_column(on(position_ids))),
              on(mu), on(scale), on(gamma), random_rows(at));
    });
  }
}

}  // namespace mixtape::simt_tests
