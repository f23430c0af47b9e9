// Reductions and distributions where 16 bits, masks and empty sets go wrong: exact figures and reported faults.
#include <doctest/doctest.h>

#include <cmath>

#include "core/kernels/parallel.h"
#include "ops/ops.h"
#include "tests/shared.h"
#include "tests/tensors.h"

using namespace mixtape;
using namespace mixtape::tests;

namespace {

// f() with 1, 2, 3 and 8 threads: the same bits?
template <class F>
bool same_bits_at_any_thread_count(const F& f) {
  const int threads = kernels::thread_count();
  kernels::set_thread_count(1);
  const Numbers first = to_vector(f());
  bool same = true;
  for (const int count : {2, 3, 8}) {
    kernels::set_thread_count(count);
    same = same && to_vector(f()) == first;
  }
  kernels::set_thread_count(threads);
  return same;
}

}  // namespace

TEST_CASE("sums of 16-bit numbers are f32 inside and rounded once") {
  const Tensor ones = full({70000}, 1, DType::f16);
  CHECK(ops::sum(ones).item() == infinity);                      // no guard: a half comes out, and 70,000 is none
  CHECK(ops::mean(ones).item() == 1);                            // divided before it is rounded
  CHECK(ops::sum(full({1000}, 1, DType::bf16)).item() == 1000);  // added up in bf16 it would stop at 256
  CHECK(ops::sum(full({2050}, 1, DType::f16)).item() == 2050);   // … and in half at 2048
  CHECK(near(ops::sum(full({4096}, 0.01, DType::f16)).item(), 40.97, 0.02));  // … and at 32

  const ContextGuard guard = autocast(DType::f16);
  const Tensor total = ops::sum(ones);
  CHECK(total.dtype() == DType::f32);
  CHECK(total.item() == 70000);
  CHECK(to_vector(ops::cumsum(ones))[69999] == 70000);
}

TEST_CASE("cumsum does not stall either") {
  const Numbers sums = to_vector(ops::cumsum(full({2, 3000}, 1, DType::f16)));
  CHECK(sums[2999] == 3000);
  CHECK(sums[5999] == 3000);
}

TEST_CASE("large reductions have the same bits at any thread count, and are right") {
  RngCoordinates at;
  at.stream = rng_stream::test;
  const int64_t n = 1000003;
  const Tensor x = randn({n}, at, 1, 0.25);
  const Tensor strided = ops::transpose(randn({1001, 997}, at), 0, 1);
  for (const Tensor& t : {x, strided}) {
    CHECK(same_bits_at_any_thread_count([&] { return ops::sum(t); }));
    CHECK(same_bits_at_any_thread_count([&] { return ops::mean(t); }));
    CHECK(same_bits_at_any_thread_count([&] { return ops::var(t); }));
    CHECK(same_bits_at_any_thread_count([&] { return ops::norm(t); }));
    CHECK(same_bits_at_any_thread_count([&] { return ops::max(t); }));
    CHECK(same_bits_at_any_thread_count([&] { return ops::sum(t, 0); }));
    CHECK(same_bits_at_any_thread_count([&] { return ops::sum(t, -1); }));
    CHECK(same_bits_at_any_thread_count([&] { return ops::mse(t, ops::mul(t, t)); }));
    double sum = 0, squares = 0, largest = -infinity;
    for (const double value : to_vector(t)) {
      sum += value;
      squares += value * value;
      largest = std::max(largest, value);
    }
    const double count = static_cast<double>(t.numel()), variance = (squares - sum * sum / count) / (count - 1);
    CHECK(near(ops::sum(t).item(), sum, 1e-6 * count * 0.25));
    CHECK(near(ops::mean(t).item(), sum / count, 1e-7));
    CHECK(near(ops::var(t).item(), variance, 1e-6));
    CHECK(near(ops::norm(t).item(), std::sqrt(squares), 1e-6 * std::sqrt(squares)));
    CHECK(ops::max(t).item() == largest);
  }
}

TEST_CASE("every walk of a long sum adds each element once") {
  // Long rows in pieces, wide columns in blocks and chunks, a handful of columns, a middle axis; small integers are
  // exact.
  const Shape shapes[] = {{2, 70000}, {1000, 600}, {3000, 3}, {4, 700, 10}};
  for (const Shape& shape : shapes) {
    Numbers values(static_cast<size_t>(shape.numel()));
    for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i * 7 % 13) - 6;
    const Tensor x = from(values, shape);
    for (int axis = 0; axis < shape.rank(); ++axis) {
      Numbers expected(static_cast<size_t>(shape.numel() / shape[axis]));
      size_t inner = 1;
      for (int later = axis + 1; later < shape.rank(); ++later) inner *= static_cast<size_t>(shape[later]);
      for (size_t i = 0; i < values.size(); ++i) {
        expected[i / (inner * static_cast<size_t>(shape[axis])) * inner + i % inner] += values[i];
      }
      CHECK(to_vector(ops::sum(x, axis)) == expected);
    }
  }
}

TEST_CASE("variance and layer norm survive what overflows or cancels in 16 bits") {
  const Numbers wide{512, -512, 256, -256};  // the squares are more than a half can hold
  const Tensor x = from(wide, {4}, DType::f16);
  {
    const ContextGuard guard = autocast(DType::f16);
    CHECK(ops::var(x, 0, false, 0).item() == 163840);
  }
  const Numbers y = to_vector(ops::layer_norm(x, full({4}, 1), zeros({4})));
  for (size_t i = 0; i < 4; ++i) CHECK(near(y[i], wide[i] / std::sqrt(163840.0), 1e-3));

  for (const DType dtype : {DType::f32, DType::f16}) {
    const Tensor close = from({1000, 1001, 1000, 1001}, {4}, dtype);
    CHECK(ops::var(close, 0, false, 0).item() == 0.25);
    CHECK(near(to_vector(ops::layer_norm(close, full({4}, 1), zeros({4})))[1], 1, 1e-3));
  }
  const Tensor far = from({1e6, 1e6 + 1}, {2});
  CHECK(ops::var(far).item() == 0.5);

  const Tensor one = leaf({3}, {1});
  const Tensor spread = ops::var(one, 0, false, 0);
  CHECK(spread.item() == 0);
  CHECK(gradient(spread, one) == Numbers{0});
  CHECK(contains(error_text([&] { ops::var(one); }), "the variance of 1 elements with correction 1"));
}

TEST_CASE("norm: no square overflows or vanishes; sub-gradient 0") {
  const auto length = [](double a, double b, DType dtype = DType::f32) {
    return ops::norm(from({a, b}, {2}, dtype)).item();
  };
  CHECK(near(length(3e20, 4e20) / 5e20, 1, 2e-7));
  CHECK(near(length(3e38, 1e38) / 3.16227766e38, 1, 2e-7));
  CHECK(near(length(3e-30, 4e-30) / 5e-30, 1, 2e-7));
  CHECK(near(length(3e-39, 4e-39) / 5e-39, 1, 1e-6));  // subnormal
  CHECK(near(length(3e20, 1) / 3e20, 1, 2e-7));
  CHECK(length(1e-30, 0.5) == 0.5);
  Numbers border(1001, 3e-15);  // on both sides of the bound between two scales
  border[500] = 4e-15;
  CHECK(near(ops::norm(from(border, {1001})).item() / std::sqrt(9000e-30 + 16e-30), 1, 1e-6));
  CHECK(length(300, 400, DType::f16) == 500);
  CHECK(length(1, infinity) == infinity);
  CHECK(std::isnan(length(1, not_a_number)));

  const Tensor zero = leaf({0, 0}, {2});
  const Tensor still = ops::norm(zero);
  CHECK(still.item() == 0);
  CHECK(gradient(still, zero) == Numbers{0, 0});
  const Tensor again = autograd::grad({ops::norm(zero)}, {zero}, {.create_graph = true})[0];
  CHECK(to_vector(again) == Numbers{0, 0});

  // x / norm(x, eps) of a zero vector: eps stays an f32 number.
  const Tensor half_zero = from({0, 0}, {2}, DType::f16);
  CHECK(contains(error_text([&] { ops::norm(half_zero, 0, true, 1e-12); }), "norm: eps 1e-12 is 0 in f16"));
  const ContextGuard guard = autocast(DType::f16);
  CHECK(near(ops::norm(half_zero, 0, true, 1e-12).item(), 1e-12, 1e-19));
  CHECK(to_vector(ops::div(half_zero, ops::norm(half_zero, 0, true, 1e-12))) == Numbers{0, 0});
}

TEST_CASE("max gives its gradient to the first of equal values; NaN is above all") {
  const Tensor x = leaf({1, 3, 3, 2, 5, 5}, {2, 3});
  CHECK(to_vector(ops::max(x, 1)) == Numbers{3, 5});
  CHECK(gradient(ops::max(x, 1), x, full({2}, 1)) == Numbers{0, 1, 0, 0, 1, 0});
  CHECK(gradient(ops::max(x, 0), x, full({3}, 1)) == Numbers{0, 0, 0, 1, 1, 1});
  CHECK(gradient(ops::max(x), x) == Numbers{0, 0, 0, 0, 1, 0});
  const Tensor broken = leaf({1, not_a_number, 7, not_a_number}, {4});
  CHECK(std::isnan(ops::max(broken).item()));
  CHECK(gradient(ops::max(broken), broken) == Numbers{0, 1, 0, 0});

  // More than one piece: ties in the second, third and last piece.
  Numbers values(10000, -1);
  values[5000] = values[5001] = values[8500] = values[9999] = 4;
  Numbers expected(10000);
  expected[5000] = 1;
  const Tensor large = leaf(values, {10000}, DType::bf16);
  CHECK(ops::max(large).item() == 4);
  CHECK(gradient(ops::max(large), large) == expected);
}

TEST_CASE("softmax of extreme scores") {
  for (const DType dtype : low_and_f32) {
    CHECK(to_vector(ops::softmax(from({1024, 1024}, {2}, dtype))) == Numbers{0.5, 0.5});
    CHECK(to_vector(ops::softmax(from({-30000, 30000}, {2}, dtype))) == Numbers{0, 1});
    CHECK(ops::softmax(from({1, 2}, {2}, dtype)).dtype() == dtype);
  }
  const Tensor infinite = from({-infinity, 0}, {2});
  CHECK(to_vector(ops::softmax(infinite)) == Numbers{0, 1});
  CHECK(to_vector(ops::log_softmax(infinite)) == Numbers{-infinity, 0});
  CHECK(std::isnan(to_vector(ops::softmax(from({not_a_number, 0}, {2})))[1]));
  CHECK(std::isnan(to_vector(ops::log_softmax(from({not_a_number, 0}, {2})))[1]));
  // One place holds nearly everything: its -log p and its gradient keep their digits.
  const Tensor sure = leaf({30, 0}, {2});
  CHECK(near(to_vector(ops::log_softmax(sure))[0] / -std::log1p(std::exp(-30.0)), 1, 1e-5));
  const Numbers slope = gradient(ops::softmax(sure), sure, from({1, 0}, {2}));
  CHECK(near(slope[0] / std::exp(-30.0), 1, 1e-5));
  CHECK(near(slope[1] / -std::exp(-30.0), 1, 1e-5));
  // The gradient of a constant vanishes although 16-bit probabilities do not add up to 1.
  const Tensor low = leaf({0.1, 0.7, -0.3, 0.2, 0.5}, {5}, DType::bf16);
  for (const double g : gradient(ops::softmax(low), low, full({5}, 64, DType::bf16))) CHECK(near(g, 0, 1e-3));
}

TEST_CASE("a row that sees nothing is 0, its gradient is 0, and its neighbours do not notice") {
  const Tensor mask = from_bools({false, false, false, true, false, true}, {2, 3});
  for (const DType dtype : low_and_f32) {
    const Tensor x = leaf({1, 2, not_a_number, 1, infinity, 3}, {2, 3}, dtype);  // what is hidden may be anything
    const Tensor seed = from({not_a_number, infinity, 1, 2, not_a_number, -1}, {2, 3}, dtype);
    const Tensor p = ops::masked_softmax(x, mask), log_p = ops::masked_log_softmax(x, mask);
    const double odds = std::exp(2.0), q = 1 / (1 + odds), tolerance = 2 * eps(dtype);
    const Numbers y = to_vector(p), l = to_vector(log_p), dx = gradient(p, x, seed), dl = gradient(log_p, x, seed);
    for (const size_t i : {0, 1, 2}) {
      CHECK(y[i] == 0);
      CHECK(l[i] == 0);
      CHECK(dx[i] == 0);
      CHECK(dl[i] == 0);
    }
    CHECK(y[4] == 0);
    CHECK(l[4] == -infinity);
    CHECK(dx[4] == 0);
    CHECK(dl[4] == 0);
    CHECK(near(y[3], q, tolerance));
    CHECK(near(y[5], 1 - q, tolerance));
    CHECK(near(l[3], std::log(q), 4 * tolerance));
    CHECK(near(dx[3], 3 * q * (1 - q), 4 * tolerance));
    CHECK(near(dx[5], -3 * q * (1 - q), 4 * tolerance));
    CHECK(near(dl[3], 2 - q, 4 * tolerance));
    CHECK(near(dl[5], -1 - (1 - q), 4 * tolerance));
  }
}

TEST_CASE("a row whose visible scores are all -inf sees nothing either") {
  const Tensor x = leaf({-infinity, -infinity, 5}, {3}), mask = from_bools({true, true, false}, {3});
  const Tensor seed = from({1, 2, 3}, {3});
  for (const Tensor& y : {ops::masked_softmax(x, mask), ops::masked_log_softmax(x, mask)}) {
    CHECK(to_vector(y) == Numbers(3));
    CHECK(gradient(y, x, seed) == Numbers(3));
  }
}

TEST_CASE("masking is selection: no result depends on how low a masked score is") {
  // Scores of a padded row that -65504 + (-16) would turn into -inf, and 0.0 and 3.9 that -10000 would make equal.
  const Tensor scores = from({-16, -15.99, 0, 3.9}, {4}, DType::f16);
  const Tensor some = from_bools({false, false, true, true}, {4}), none = from_bools({false, false, false, false}, {4});
  const Numbers two = to_vector(ops::softmax(from({0, 3.9}, {2}, DType::f16)));
  CHECK(to_vector(ops::masked_softmax(scores, some)) == Numbers{0, 0, two[0], two[1]});
  CHECK(to_vector(ops::masked_softmax(scores, none)) == Numbers{0, 0, 0, 0});
  // A mask of one axis serves all heads and all queries; batch 1 sees nothing.
  RngCoordinates at;
  at.stream = rng_stream::test;
  const Tensor x = randn({2, 3, 4, 37}, at);
  std::vector<bool> visible(74);
  for (size_t i = 0; i < 37; ++i) visible[i] = i < 30;
  const Numbers y = to_vector(ops::masked_softmax(x, from_bools(visible, {2, 1, 1, 37})));
  const Numbers prefix = to_vector(ops::softmax(ops::slice(x, 3, 0, 30)));
  for (size_t row = 0; row < 12; ++row) {
    for (size_t i = 0; i < 37; ++i) CHECK(near(y[row * 37 + i], i < 30 ? prefix[row * 30 + i] : 0, 1e-7));
  }
  for (size_t i = 12 * 37; i < y.size(); ++i) CHECK(y[i] == 0);
}

TEST_CASE("logsumexp at the ends of the scale") {
  CHECK(near(ops::logsumexp(from({1000, 1000}, {2})).item(), 1000 + std::log(2.0), 1e-4));
  CHECK(near(ops::logsumexp(from({-1000, -1000}, {2})).item(), -1000 + std::log(2.0), 1e-4));
  CHECK(ops::logsumexp(from({infinity, 0}, {2})).item() == infinity);
  const Tensor nothing = leaf({-infinity, -infinity}, {2});
  CHECK(ops::logsumexp(nothing).item() == -infinity);
  CHECK(gradient(ops::logsumexp(nothing), nothing) == Numbers{0, 0});
  CHECK(to_vector(ops::logsumexp(zeros({0, 2}), 0)) == Numbers{-infinity, -infinity});
}

TEST_CASE("KL(p, p) of half logits is not negative, whichever ops it is made of") {
  RngCoordinates at;
  at.stream = rng_stream::test;
  const Tensor x = randn({64, 50}, at, 4, 0, DType::f16);
  const ContextGuard guard = autocast(DType::f16);
  const Tensor log_p = ops::sub(x, ops::logsumexp(x, -1, true)), log_q = ops::log_softmax(x);
  const Tensor kl = ops::sum(ops::mul(ops::exp(log_p), ops::sub(log_p, log_q)), -1);
  CHECK(kl.dtype() == DType::f32);
  for (const double value : to_vector(kl)) CHECK(near(value, 0, 2e-6));
  CHECK(to_vector(ops::sum(ops::mul(ops::exp(log_q), ops::sub(log_q, log_q)), -1)) == Numbers(64));
}
