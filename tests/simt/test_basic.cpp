// Kernels without a formula on the device: fill, copy, scale, census, products, and picking of any tensors.
#include <doctest/doctest.h>

#include "core/kernels/basic.cuh"
#include "core/kernels/gather.cuh"
#include "core/kernels/gemm.cuh"
#include "core/kernels/layout.h"
#include "tests/simt/both.cuh"

namespace mixtape::simt_tests {
namespace {

using kernels::axis_first;
using kernels::section;
using kernels::transposed;

// The calls of the two machines under one name: f(OnDevice) gets functions of kernels::device.
#define MIXTAPE_ON_BOTH(name)                            \
  template <class... Args>                               \
  void name##_on(const OnHost&, const Args&... args) {   \
    kernels::name(args...);                              \
  }                                                      \
  template <class... Args>                               \
  void name##_on(const OnDevice&, const Args&... args) { \
    kernels::device::name(args...);                      \
  }
MIXTAPE_ON_BOTH(fill)
MIXTAPE_ON_BOTH(copy)
MIXTAPE_ON_BOTH(scale)
MIXTAPE_ON_BOTH(add_scaled)
MIXTAPE_ON_BOTH(gemm)
MIXTAPE_ON_BOTH(gather_rows)
MIXTAPE_ON_BOTH(sum_rows)
MIXTAPE_ON_BOTH(gather_elements)
MIXTAPE_ON_BOTH(sum_elements)
#undef MIXTAPE_ON_BOTH

constexpr DType all_types[] = {DType::f32, DType::f16, DType::bf16, DType::f64,
                               DType::i64, DType::i32, DType::u8,   DType::boolean};

Tensor of_type(const Shape& shape, DType dtype, uint32_t draw) {
  return copy_of(numbers(shape, DType::f32, draw, 3.0, dtype == DType::u8 ? 40.0 : 0.0), dtype);
}

}  // namespace

TEST_CASE("fill and copy: every pair of dtypes, every layout") {
  for (const DType to : all_types) {
    const Pair y({3, 7}, to), whole(of_type({9, 8}, to, 1));
    check_both("fill", {&y}, 0, [&](const auto& on) { fill_on(on, on(y), 1.0); });
    check_both("fill", {&whole}, 0, [&](const auto& on) { fill_on(on, section(on(whole), 1, 1, 3, 2), 1.0); });
    for (const DType from : all_types) {
      if (to == DType::u8 && from != DType::boolean && from != DType::u8)
        continue;  // what is below 0 is nobody's number
      const Pair x(of_type({7, 3}, from, 2)), row(of_type({7}, from, 3));
      check_both("copy", {&y}, 0, [&](const auto& on) { copy_on(on, transposed(on(x)), on(y)); });
      check_both("copy", {&y}, 0, [&](const auto& on) { copy_on(on, on(row).broadcast_to({3, 7}), on(y)); });
    }
  }
  const Pair empty_one(of_type({0, 3}, DType::f32, 4)), target({0, 3}, DType::bf16);
  check_both("copy", {&target}, 0, [&](const auto& on) { copy_on(on, on(empty_one), on(target)); });
}

TEST_CASE("scale and add_scaled") {
  for (const DType dtype : float_types) {
    const Pair a(numbers({5, 9}, dtype, 5)), b(numbers({9}, DType::f32, 6)), y({5, 9}, dtype), z({5, 9}, DType::f32);
    check_both("scale", {&y}, 0, [&](const auto& on) { scale_on(on, on(a), 0.3, on(y)); });
    check_both("add_scaled", {&z}, 0, [&](const auto& on) {
      add_scaled_on(on, on(a), 0.3, on(b).broadcast_to({5, 9}), -2.0, on(z));
    });
  }
}

TEST_CASE("census") {
  for (const DType dtype : float_types) {
    for (const int64_t n : {int64_t{0}, int64_t{7}, int64_t{40000}}) {
      Tensor x = numbers({n}, dtype, 7);
      for (const bool spoilt : {false, true}) {
        if (spoilt && n > 5)
          x = copy_of(x), assign(Tensor(x.storage(), {{1}, {1}, 5, dtype}), full({1}, INFINITY, dtype));
        const Pair pair(x);
        const kernels::Census host = kernels::census(pair.host());
        in_all_orders([&] {
          const kernels::Census device = kernels::device::census(pair.device());
          CHECK(device.finite == host.finite);
          CHECK(device.max_abs == host.max_abs);
          if (host.finite) CHECK(device.sum_of_squares == doctest::Approx(host.sum_of_squares).epsilon(1e-12));
        });
        tally().rows.insert("census");
        ++tally().cases;
      }
    }
  }
}

TEST_CASE("products: layouts, batches that broadcast, bias, factor, adding to what is there") {
  struct Product {
    Shape a, b, c;
  };
  for (const Product& p : {Product{{3, 4}, {4, 5}, {3, 5}}, Product{{17, 33}, {33, 40}, {17, 40}},
                           Product{{2, 3, 4}, {4, 5}, {2, 3, 5}}, Product{{2, 1, 3, 4}, {3, 4, 2}, {2, 3, 3, 2}},
                           Product{{3, 0}, {0, 2}, {3, 2}}, Product{{0, 3}, {3, 2}, {0, 2}}}) {
    for (const DType dtype : float_types) {
      const Pair a(numbers(p.a, dtype, 8)), b(numbers(p.b, dtype, 9)), bias(numbers({p.c.back()}, DType::f32, 10));
      const Pair low(p.c, dtype), sum(numbers(p.c, DType::f32, 11));
      const double terms = static_cast<double>(p.a.back());
      check_both("gemm", {&low}, terms, [&](const auto& on) {
        gemm_on(on, on(a), on(b), on(low), kernels::GemmOptions{.bias = on(bias), .alpha = 0.5});
      });
      check_both("gemm", {&sum}, terms,
                 [&](const auto& on) { gemm_on(on, on(a), on(b), on(sum), kernels::GemmOptions{.accumulate = true}); });
      if (p.c.rank() != 2) continue;
      check_both("gemm", {&low}, terms, [&](const auto& on) {
        gemm_on(on, transposed(on(b)), transposed(on(a)), transposed(on(low)), kernels::GemmOptions{});
      });
    }
  }
}

TEST_CASE("rows of any rank, dtype and layout by an index, and their sums") {
  for (const DType dtype : all_types) {
    const Pair x(of_type({4, 3, 5}, dtype, 13)), index(ids({6}, 4, 14)), y({6, 3, 5}, dtype);
    check_both("index_select", {&y}, 0, [&](const auto& on) { gather_rows_on(on, on(x), on(index), on(y)); });
    const Pair middle(ids({2}, 3, 15)), z({4, 2, 5}, dtype);
    check_both("index_select", {&z}, 0,
               [&](const auto& on) { gather_rows_on(on, axis_first(on(x), 1), on(middle), axis_first(on(z), 1)); });
    if (!is_float(dtype) || dtype == DType::f64) continue;
    const Pair dy(of_type({6, 3, 5}, dtype, 16)), dx({4, 3, 5}, dtype), turned(ids({3, 2}, 4, 17));
    check_both("index_select", {&dx}, 0, [&](const auto& on) { sum_rows_on(on, on(dy), on(index), on(dx), 2); });
    check_both("index_select", {&dx}, 0,
               [&](const auto& on) { sum_rows_on(on, on(dy), transposed(on(turned)), on(dx), int64_t{-1}); });
  }
}

TEST_CASE("elements along an axis by an index, and their sums in its order") {
  for (const DType dtype : all_types) {
    for (const int axis : {0, 1, 2}) {
      Shape picked{2, 3, 4};
      picked[axis] = 7;
      const Pair x(of_type({2, 3, 5}, dtype, 18)), index(ids(picked, Shape{2, 3, 5}[axis], 19)), y(picked, dtype);
      check_both("gather", {&y}, 0, [&](const auto& on) { gather_elements_on(on, on(x), on(index), axis, on(y)); });
      if (!is_float(dtype) || dtype == DType::f64) continue;
      const Pair dy(of_type(picked, dtype, 20)), dx({2, 3, 5}, dtype);
      check_both("gather", {&dx}, 0, [&](const auto& on) { sum_elements_on(on, on(dy), on(index), axis, on(dx)); });
    }
  }
}

TEST_CASE("an index that names nothing picks NaN, or 0, and adds to nothing") {
  const Pair x(numbers({3, 2, 2}, DType::bf16, 21)), index(from_ints({2, 3, -1}, {3})), y({3, 2, 2}, DType::bf16);
  kernels::device::gather_rows(x.device(), index.device(), y.device());
  const std::vector<double> got = y.device_values(), all = x.host_values();
  for (size_t i = 0; i < 4; ++i) {
    CHECK(got[i] == all[8 + i]);
    CHECK(std::isnan(got[4 + i]));
    CHECK(std::isnan(got[8 + i]));
  }
  const Pair dy(numbers({3}, DType::f32, 22)), dx({3}, DType::f32);
  kernels::device::sum_elements(dy.device(), index.device(), 0, dx.device());
  CHECK(dx.device_values() == std::vector<double>{0, 0, dy.host_values()[0]});
}

}  // namespace mixtape::simt_tests
