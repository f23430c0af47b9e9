// rows on the device: softmax, layer_norm and cross_entropy, forward and back, with the CPU's own formulas.
#include <doctest/doctest.h>

#include "core/kernels/layout.h"
#include "ops/cross_entropy.h"
#include "ops/layer_norm.h"
#include "ops/softmax.h"
#include "tests/simt/both.cuh"

namespace mixtape::simt_tests {
namespace {

using kernels::as_column;
using kernels::write;

/// A running sum: a step needs the one before.
struct RunningSum {
  template <class Lanes, class M>
  MIXTAPE_HD void operator()(const Lanes& lanes, int64_t n, int64_t, M* y, const M* x) const {
    lanes.in_order(n, [&](int64_t i) { y[i] = i == 0 ? x[0] : y[i - 1] + x[i]; });
  }
};

const Shape row_shapes[] = {{3, 5}, {2, 1}, {0, 3}, {2, 3, 7}, {33}, {3, 64}, {2, 130}, {2, 768}, {1, 3000}};

double terms_of(const Shape& shape) { return static_cast<double>(shape.back()); }
Shape column_of(Shape shape) {
  shape[shape.rank() - 1] = 1;
  return shape;
}

}  // namespace

TEST_CASE("softmax, forward and back") {
  for (const DType dtype : float_types) {
    for (const Shape& shape : row_shapes) {
      const Pair x(numbers(shape, dtype, 1, 4.0)), y(shape, dtype), dx(shape, dtype), dy(numbers(shape, dtype, 2));
      check_both("softmax", {&y}, terms_of(shape),
                 [&](const auto& on) { on.rows(ops::SoftmaxRow{}, shape, write(on(y)), on(x)); });
      const Tensor given = from(y.host_values(), shape, dtype);  // the same on both machines
      const Pair saved(given);
      check_both("softmax", {&dx}, terms_of(shape),
                 [&](const auto& on) { on.rows(ops::SoftmaxRowGrad{}, shape, write(on(dx)), on(dy), on(saved)); });
    }
  }
}

TEST_CASE("masked softmax: broadcast masks, rows that see nothing, another axis") {
  std::vector<bool> bits(2 * 40);
  for (size_t i = 0; i < bits.size(); ++i) bits[i] = i < 40 && i % 7 != 0;
  for (const DType dtype : float_types) {
    const Shape shape{2, 3, 4, 40};
    const Pair x(numbers(shape, dtype, 3, 4.0)), y(shape, dtype), mask(from_bools(bits, {2, 1, 1, 40}));
    check_both("masked_softmax", {&y}, 40, [&](const auto& on) {
      on.rows(ops::MaskedSoftmaxRow{}, shape, write(on(y)), on(x), on(mask).broadcast_to(shape));
    });
    const Pair along(numbers({40, 6}, dtype, 4)), z({40, 6}, dtype);
    check_both("softmax", {&z}, 40, [&](const auto& on) {
      on.rows(ops::SoftmaxRow{}, Shape{6, 40}, write(kernels::transposed(on(z))), kernels::transposed(on(along)));
    });
  }
}

TEST_CASE("layer_norm, forward and back") {
  for (const DType dtype : float_types) {
    for (const Shape& shape : row_shapes) {
      const int64_t n = shape.back();
      const Pair x(numbers(shape, dtype, 5, 1.0, 3.0)), gamma(numbers({n}, DType::f32, 6, 0.2, 1.0)),
          beta(numbers({n}, DType::f32, 7)), dy(numbers(shape, dtype, 8));
      const Pair y(shape, dtype), dx(shape, dtype), mean(column_of(shape), DType::f32),
          rstd(column_of(shape), DType::f32);
      check_both("layer_norm", {&y, &mean, &rstd}, terms_of(shape), [&](const auto& on) {
        on.rows(ops::NormalizeRow{1e-5}, shape, write(on(y)), write(on(mean)), write(on(rstd)), on(x), on(gamma),
                on(beta));
      });
      const Pair saved_mean(from(mean.host_values(), column_of(shape))),
          saved_rstd(from(rstd.host_values(), column_of(shape)));
      check_both("layer_norm", {&dx}, terms_of(shape), [&](const auto& on) {
        on.rows(ops::NormalizeRowGrad{}, shape, write(on(dx)), on(dy), on(x), on(saved_mean), on(saved_rstd),
                on(gamma));
      });
    }
  }
}

TEST_CASE("cross_entropy, forward and back, with ignored targets and smoothing") {
  for (const DType dtype : float_types) {
    for (const int64_t classes : {2, 3, 64, 131, 1031}) {
      for (const double smoothing : {0.0, 0.1}) {
        const Shape shape{5, classes};
        std::vector<int64_t> places{0, classes - 1, -100, 1, classes / 2};
        const Pair x(numbers(shape, dtype, 9, 3.0)), targets(from_ints(places, {5})), loss({5}, DType::f32),
            log_total({5}, DType::f32), dx(shape, dtype), dy(numbers({5}, DType::f32, 10)), divisor(scalar(4.0));
        check_both("cross_entropy", {&loss, &log_total}, terms_of(shape), [&](const auto& on) {
          on.rows(ops::CrossEntropyRow{-100, smoothing}, shape, write(as_column(on(loss))),
                  write(as_column(on(log_total))), on(x), as_column(on(targets)));
        });
        const Pair saved(from(log_total.host_values(), {5}));
        check_both("cross_entropy", {&dx}, terms_of(shape), [&](const auto& on) {
          on.rows(ops::CrossEntropyRowGrad{-100, smoothing}, shape, write(on(dx)), as_column(on(dy)), on(x),
                  as_column(on(saved)), as_column(on(targets)), on(divisor));
        });
      }
    }
  }
}

TEST_CASE("statistics that nobody keeps: each thread has its own") {
  View no_column;
  no_column.shape = {4, 1};
  no_column.strides = {1, 1};
  const Shape shape{4, 70};
  const Pair x(numbers(shape, DType::f32, 16, 3.0)), targets(ids({4}, 70, 17)), loss({4}, DType::f32),
      y(shape, DType::f32), gamma(numbers({70}, DType::f32, 18)), beta(numbers({70}, DType::f32, 19));
  check_both("cross_entropy", {&loss}, terms_of(shape), [&](const auto& on) {
    on.rows(ops::CrossEntropyRow{-100, 0.0}, shape, write(as_column(on(loss))), write(no_column), on(x),
            as_column(on(targets)));
  });
  check_both("layer_norm", {&y}, terms_of(shape), [&](const auto& on) {
    on.rows(ops::NormalizeRow{1e-5}, shape, write(on(y)), write(no_column), write(no_column), on(x), on(gamma),
            on(beta));
  });
}

TEST_CASE("more rows than blocks: a block takes one after the other") {
  const Shape shape{2050, 3};
  const Pair x(numbers(shape, DType::f32, 14, 3.0)), targets(ids({2050}, 3, 15)), loss({2050}, DType::f32),
      log_total({2050}, DType::f32);
  check_both("cross_entropy", {&loss, &log_total}, terms_of(shape), [&](const auto& on) {
    on.rows(ops::CrossEntropyRow{-100, 0.0}, shape, write(as_column(on(loss))), write(as_column(on(log_total))), on(x),
            as_column(on(targets)));
  });
}

TEST_CASE("a row that does not fit into shared memory has its room in global memory") {
  const Shape shape{3, 30522};
  const Pair x(numbers(shape, DType::f32, 11, 2.0)), y(shape, DType::f32);
  check_both("softmax", {&y}, terms_of(shape),
             [&](const auto& on) { on.rows(ops::SoftmaxRow{}, shape, write(on(y)), on(x)); });
}

TEST_CASE("more than 48 KB of shared memory is asked for") {
  const Shape shape{2, 8000};
  const Pair x(numbers(shape, DType::bf16, 12, 2.0)), y(shape, DType::bf16);
  check_both("softmax", {&y}, terms_of(shape),
             [&](const auto& on) { on.rows(ops::SoftmaxRow{}, shape, write(on(y)), on(x)); });
}

TEST_CASE("a loop in order") {
  for (const DType dtype : float_types) {
    const Pair x(numbers({4, 70}, dtype, 13)), y({4, 70}, dtype);
    check_both("cumsum", {&y}, 0, [&](const auto& on) { on.rows(RunningSum{}, Shape{4, 70}, write(on(y)), on(x)); });
  }
}

}  // namespace mixtape::simt_tests
