// Matrix products on the device, through cublasLt: layouts, batches, options, bias gradients, and what is learnt once.
#include <doctest/doctest.h>

#include "tests/simt/gemm_both.cuh"

namespace mixtape::simt_tests {
namespace {

using kernels::section;
using kernels::transposed;

struct Sizes {
  int64_t m, n, k;
};
constexpr Sizes odd_sizes[] = {{1, 1, 1}, {4, 5, 6}, {17, 33, 9}, {1, 7, 64}, {64, 1, 40}, {3, 2, 1}, {32, 24, 16}};

/// `dtype`, and what its products may also be written as.
std::vector<DType> outputs_of(DType dtype) {
  return dtype == DType::f32 ? std::vector<DType>{dtype} : std::vector<DType>{dtype, DType::f32};
}

Tensor gemm_bias(int64_t n, uint32_t draw) { return numbers({n}, DType::f32, draw); }

}  // namespace

TEST_CASE("products of matrices in every layout and of odd sizes") {
  const GemmSession session;
  for (const DType dtype : float_types) {
    for (const Sizes& s : odd_sizes) {
      const Pair a(numbers({s.m, s.k}, dtype, 1)), at(numbers({s.k, s.m}, dtype, 2)), b(numbers({s.k, s.n}, dtype, 3)),
          bt(numbers({s.n, s.k}, dtype, 4));
      for (const DType out : outputs_of(dtype)) {
        const Pair c({s.m, s.n}, out);
        const auto check = [&](const auto& product) { check_both("matmul", {&c}, static_cast<double>(s.k), product); };
        check([&](const auto& on) { multiply(on, on(a), on(b), on(c)); });
        check([&](const auto& on) { multiply(on, transposed(on(at)), on(b), on(c)); });
        check([&](const auto& on) { multiply(on, on(a), transposed(on(bt)), on(c)); });
        check([&](const auto& on) { multiply(on, transposed(on(at)), transposed(on(bt)), on(c)); });
      }
    }
  }
}

TEST_CASE("alpha, accumulation and a bias, which a 16-bit output gets before it is rounded") {
  const GemmSession session;
  constexpr int64_t m = 12, n = 9, k = 21;
  for (const DType dtype : float_types) {
    const Pair a(numbers({m, k}, dtype, 1)), b(numbers({k, n}, dtype, 2)), bias(gemm_bias(n, 3)),
        low(copy_of(numbers({n}, dtype, 4), DType::f32)), spread(gemm_bias(2 * n, 5));
    for (const DType out : outputs_of(dtype)) {
      for (const bool accumulate : {false, true}) {
        const auto check = [&](GemmOptions options, const auto& bias_of, const GemmRequest& request = {}) {
          const Pair c(numbers({m, n}, out, 6));  // a new one each time: it is changed
          options.accumulate = accumulate;
          check_both("linear", {&c}, k + 2, [&](const auto& on) {
            options.bias = bias_of(on);
            multiply(on, on(a), on(b), on(c), options, request);
          });
        };
        check({.alpha = 0.125}, [](const auto&) { return View{}; });
        check({.alpha = -2.5}, [&](const auto& on) { return on(bias); });
        check({}, [&](const auto& on) { return section(on(spread), 0, 1, n, 2); });
        check({}, [&](const auto& on) { return on(low); }, {.low_bias = true});
      }
    }
  }
}

TEST_CASE("stacks of matrices whose batch axes broadcast") {
  const GemmSession session;
  const std::vector<std::array<Shape, 3>> stacks = {
      {Shape{2, 3, 4, 5}, {2, 3, 5, 6}, {2, 3, 4, 6}}, {Shape{2, 1, 4, 5}, {3, 5, 6}, {2, 3, 4, 6}},
      {Shape{2, 3, 4, 5}, {5, 6}, {2, 3, 4, 6}},       {Shape{4, 5}, {3, 5, 6}, {3, 4, 6}},
      {Shape{3, 1, 5}, {3, 5, 1}, {3, 1, 1}},          {Shape{2, 3, 16, 8}, {2, 3, 8, 16}, {2, 3, 16, 16}}};
  for (const DType dtype : float_types) {
    for (const auto& stack : stacks) {
      const Pair a(numbers(stack[0], dtype, 1)), b(numbers(stack[1], dtype, 2)), bias(gemm_bias(stack[2].back(), 3));
      for (const DType out : outputs_of(dtype)) {
        const Pair c(stack[2], out), sum(numbers(stack[2], out, 4));
        check_both("batched_matmul", {&c}, 8,
                   [&](const auto& on) { multiply(on, on(a), on(b), on(c), {.alpha = 0.5}); });
        check_both("batched_matmul", {&sum}, 10, [&](const auto& on) {
          multiply(on, on(a), on(b), on(sum), {.bias = on(bias), .accumulate = true});
        });
      }
    }
  }
}

TEST_CASE("heads that lie between each other, as operands and as the output") {
  const GemmSession session;
  constexpr int64_t batch = 2, tokens = 5, heads = 3, d = 4, width = heads * d;
  const Shape by_head{batch, heads, tokens, d};
  const Strides strides{tokens * width, d, width, 1};
  for (const DType dtype : float_types) {
    const Pair q(numbers({batch, tokens, width}, dtype, 1)), k(numbers({batch, tokens, width}, dtype, 2)),
        scores({batch, heads, tokens, tokens}, dtype), context({batch, tokens, width}, dtype);
    check_both("batched_matmul", {&scores}, d, [&](const auto& on) {
      multiply(on, with_layout(on(q), by_head, strides), transposed(with_layout(on(k), by_head, strides)), on(scores),
               {.alpha = 0.5});
    });
    const Pair weights(numbers({batch, heads, tokens, tokens}, dtype, 3));
    check_both("batched_matmul", {&context}, tokens, [&](const auto& on) {
      multiply(on, on(weights), with_layout(on(k), by_head, strides), with_layout(on(context), by_head, strides));
    });
  }
}

TEST_CASE("strides that no layout of the library expresses") {
  const GemmSession session;
  constexpr int64_t m = 7, n = 6, k = 10;
  for (const DType dtype : float_types) {
    const Pair room(numbers({40, 40}, dtype, 1)), row(numbers({k}, dtype, 2)), b(numbers({k, n}, dtype, 3));
    const auto part = [](const View& v, int64_t rows, int64_t columns, int64_t step = 1) {
      return section(section(v, 0, 1, rows), 1, 2, columns, step);
    };
    const auto check = [&](const auto& call) {
      const Pair c(numbers({3 * m, 3 * n}, dtype, 4));  // a new one each time: only a part is written
      check_both("matmul", {&c}, k + 1, [&](const auto& on) { call(on, on(c)); });
    };
    check([&](const auto& on, const View& c) {
      multiply(on, part(on(room), m, k, 2), part(on(room), k, n, 3), part(c, m, n));
    });
    check([&](const auto& on, const View& c) {
      multiply(on, with_layout(on(row), {m, k}, {0, 1}), transposed(part(on(room), n, k)), part(c, m, n));
    });
    check([&](const auto& on, const View& c) {
      multiply(on, part(on(room), m, k), on(b), part(c, m, n, 2), {.accumulate = true});
    });
    check([&](const auto& on, const View& c) {
      multiply(on, part(on(room), m, k), on(b), transposed(part(c, n, m)), {.alpha = 2.0});
    });
    check([&](const auto& on, const View& c) {  // batches of which two are the same, and all overlap
      multiply(on, with_layout(on(room), {2, 3, m, k}, {0, 1, 2, 3}), with_layout(on(room), {3, k, n}, {0, 2, 5}),
               with_layout(c, {2, 3, m, n}, {3 * m * n, m * n, n, 1}));
    });
  }
}

TEST_CASE("products of nothing: zeros, or the bias") {
  const GemmSession session;
  for (const DType dtype : float_types) {
    const Pair none(numbers({3, 0}, dtype, 1)), below(numbers({0, 4}, dtype, 2)), other({3, 4}, dtype),
        bias(gemm_bias(4, 4)), a(numbers({3, 5}, dtype, 5)), empty_b(numbers({5, 0}, dtype, 6)), empty_c({3, 0}, dtype);
    const auto check = [&](GemmOptions options, bool with_bias) {
      const Pair c(numbers({3, 4}, dtype, 3));
      check_both("matmul", {&c}, 0, [&](const auto& on) {
        if (with_bias) options.bias = on(bias);
        multiply(on, on(none), on(below), on(c), options);
      });
    };
    check({}, false);
    check({}, true);
    check({.accumulate = true}, false);
    check({.accumulate = true}, true);
    const Pair sums({3}, DType::f32);
    check_both("matmul", {&sums}, 5,
               [&](const auto& on) { multiply(on, on(a), on(empty_b), on(empty_c), {}, {.a_sums = on(sums)}); });
    check_both("matmul", {&sums}, 0,
               [&](const auto& on) { multiply(on, on(none), on(below), on(other), {}, {.a_sums = on(sums)}); });
  }
}

TEST_CASE("f64: the kernel of our own") {
  const GemmSession session;
  for (const Sizes& s : odd_sizes) {
    const Pair a(numbers({2, s.m, s.k}, DType::f64, 1)), b(numbers({s.n, s.k}, DType::f64, 2)),
        bias(numbers({s.n}, DType::f64, 3)), c(numbers({2, s.m, s.n}, DType::f64, 4));
    const auto product = [&](const auto& on) {
      multiply(on, on(a), transposed(on(b)), on(c), {.bias = on(bias), .alpha = 0.3, .accumulate = true});
    };
    product(OnHost{});
    in_all_orders([&] {
      c.bytes().reset();
      product(OnDevice{});
      const std::vector<double> host = c.host_values(), device = c.device_values();
      for (size_t i = 0; i < host.size(); ++i) CHECK(device[i] == doctest::Approx(host[i]).epsilon(1e-13));
    });
    ++tally().cases;
  }
  const Pair none(zeros({2, 0}, DType::f64)), below(zeros({0, 3}, DType::f64)), c(numbers({2, 3}, DType::f64, 5));
  multiply(OnDevice{}, none.device(), below.device(), c.device());
  CHECK(c.device_values() == std::vector<double>(6, 0.0));
}

}  // namespace mixtape::simt_tests
