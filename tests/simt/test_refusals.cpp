// What kernels refuse, and rows of a table that an index does not name.
#include <doctest/doctest.h>

#include "core/kernels/basic.cuh"
#include "core/kernels/gather.cuh"
#include "core/kernels/gemm.cuh"
#include "core/kernels/layout.h"
#include "ops/embed_layer_norm.h"
#include "tests/simt/both.cuh"

namespace mixtape::simt_tests {
namespace {

using kernels::as_column;
using kernels::axis_first;
using kernels::picked_rows;
using kernels::random_rows;
using kernels::write;

/// The code of the error that f throws; empty when it throws none.
template <class F>
std::string refusal_of(const F& f) {
  try {
    f();
  } catch (const Error& error) {
    return error.code();
  }
  return "";
}

}  // namespace

TEST_CASE("kernels for a device refuse f64, and what lies on the CPU") {
  namespace device = kernels::device;
  const Pair x(numbers({4, 4}, DType::f64, 1)), y({4, 4}, DType::f64), f(numbers({4, 4}, DType::f32, 2)),
      index(from_ints({0, 1, 2, 3}, {4}));
  const OnDevice on;
  CHECK(refusal_of([&] { device::census(x.device()); }) == "E-DEVICE-DTYPE");
  CHECK(refusal_of([&] { device::census(kernels::transposed(f.device())); }) == "E-KERNEL");
  CHECK(refusal_of([&] { device::gemm(x.device(), x.device(), y.device()); }) == "E-DEVICE-DTYPE");
  CHECK(refusal_of([&] { device::sum_rows(x.device(), index.device(), y.device()); }) == "E-DEVICE-DTYPE");
  CHECK(refusal_of([&] { on.map(kernels::Identity{}, y.device(), x.device()); }) == "E-DEVICE-DTYPE");
  CHECK(refusal_of([&] { on.map(kernels::Identity{}, f.device(), f.host()); }) == "E-DEVICE-MIXED");
  CHECK(refusal_of([&] { on.map(kernels::Identity{}, f.host(), f.device()); }) == "E-DEVICE-MIXED");
  CHECK(refusal_of([] { check_cuda(cudaErrorInvalidValue, "a call"); }) == "E-CUDA");
}

TEST_CASE("rows along another axis, rounded to another dtype") {
  const Pair x(numbers({4, 3, 5}, DType::f32, 3)), index(from_ints({2, 0}, {2}));
  for (const DType dtype : {DType::bf16, DType::f16}) {
    const Pair y({4, 2, 5}, dtype);
    check_both("index_select", {&y}, 0, [&]<class On>(const On& on) {
      const View source = axis_first(on(x), 1), out = axis_first(on(y), 1);
      if constexpr (std::is_same_v<On, OnDevice>) {
        kernels::device::gather_rows(source, on(index), out);
      } else {
        kernels::gather_rows(source, on(index), out);
      }
    });
  }
}

TEST_CASE("a row of three tables one of which the index does not name is NaN, and no other row is") {
  const Shape shape{4, 32}, column{4, 1};
  const Pair words(numbers({5, 32}, DType::f32, 4)), types(numbers({2, 32}, DType::f32, 5)),
      positions(numbers({4, 32}, DType::f32, 6)), word_ids(from_ints({1, 5, 0, -1}, {4})),
      good_ids(from_ints({1, 2, 0, 3}, {4})), type_ids(from_ints({0, 1, 0, 1}, {4})),
      position_ids(from_ints({0, 1, 2, 3}, {4})), gamma(numbers({32}, DType::f32, 7, 0.2, 1.0)),
      beta(numbers({32}, DType::f32, 8)), y(shape, DType::f32), mean(column, DType::f32), rstd(column, DType::f32);
  const auto rows = [&](const Pair& ids_of_words) {
    OnDevice{}.rows(ops::NormalizeThreeRows{{}, {1e-5}, ops::DropoutFormula(0)}, shape, write(y.device()),
                    write(mean.device()), write(rstd.device()),
                    picked_rows(words.device(), as_column(ids_of_words.device())),
                    picked_rows(types.device(), as_column(type_ids.device())),
                    picked_rows(positions.device(), as_column(position_ids.device())), gamma.device(), beta.device(),
                    random_rows(RngCoordinates{7, rng_stream::dropout, 3, 1, 2}));
    return y.device_values();
  };
  const std::vector<double> good = rows(good_ids), got = rows(word_ids);
  for (size_t i = 0; i < got.size(); ++i) {
    const size_t row = i / 32;
    const bool as_expected = row % 2 == 0 ? got[i] == good[i] : std::isnan(got[i]) && std::isfinite(good[i]);
    CAPTURE(i);
    CHECK(as_expected);
  }
}

}  // namespace mixtape::simt_tests
