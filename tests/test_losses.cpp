// Losses where 16 bits, ignored targets and rounded probabilities go wrong: exact figures and reported faults.
#include <doctest/doctest.h>

#include <cmath>

#include "ops/ops.h"
#include "tests/shared.h"
#include "tests/tensors.h"

using namespace mixtape;
using namespace mixtape::tests;
using ops::Reduction;

TEST_CASE("cross entropy is its composed twin") {
  RngCoordinates at;
  at.stream = rng_stream::test;
  for (const Reduction reduction : {Reduction::mean, Reduction::sum, Reduction::none}) {
    const Tensor x = randn({6, 37}, at, 3).set_requires_grad();
    const Tensor targets = from_ints({0, 36, -100, 5, 5, 11}, {6});
    const Tensor fused = ops::cross_entropy(x, targets, {reduction}),
                 twin = ops::nll(ops::log_softmax(x), targets, {reduction});
    const Tensor seed = full(fused.shape(), 0.75);
    const Numbers a = to_vector(fused), b = to_vector(twin), da = gradient(fused, x, seed),
                  db = gradient(twin, x, seed);
    for (size_t i = 0; i < a.size(); ++i) CHECK(near(a[i], b[i], 1e-5));
    for (size_t i = 0; i < da.size(); ++i) CHECK(near(da[i], db[i], 1e-6));
    for (size_t i = 2 * 37; i < 3 * 37; ++i) CHECK(da[i] == 0);  // the ignored row
  }
}

TEST_CASE("all targets ignored: loss 0 and gradient 0, even of broken logits") {
  const Tensor targets = from_ints({-100, -100}, {2});
  for (const DType dtype : low_and_f32) {
    const Tensor x = leaf({1, not_a_number, infinity, 2}, {2, 2}, dtype);
    for (const Reduction reduction : {Reduction::mean, Reduction::sum}) {
      const Tensor loss = ops::cross_entropy(x, targets, {reduction});
      CHECK(loss.item() == 0);
      CHECK(gradient(loss, x) == Numbers(4));
      const Tensor picked = ops::nll(x, targets, {reduction});
      CHECK(picked.item() == 0);
      CHECK(gradient(picked, x) == Numbers(4));
    }
    CHECK(to_vector(ops::cross_entropy(x, targets, {Reduction::none}, 0.1)) == Numbers(2));
  }
  const Tensor nobody = leaf({}, {0, 3});
  CHECK(ops::cross_entropy(nobody, from_ints({}, {0})).item() == 0);
  CHECK(ops::bce_with_logits(nobody, zeros({0, 3})).item() == 0);
  CHECK(ops::mse(nobody, zeros({0, 3})).item() == 0);
}

TEST_CASE("micro-batches that divide by the items of the window add up to the large batch") {
  RngCoordinates at;
  at.stream = rng_stream::test;
  const Tensor x = randn({5, 3}, at).set_requires_grad();
  const Tensor targets = from_ints({2, -100, 0, 1, 1}, {5});
  const Numbers whole = gradient(ops::cross_entropy(x, targets), x);
  const auto part = [&](int64_t from_row, int64_t to_row) {
    return ops::cross_entropy(ops::slice(x, 0, from_row, to_row), ops::slice(targets, 0, from_row, to_row),
                              {.items = 4});
  };
  const Tensor first = part(0, 2), second = part(2, 5);
  CHECK(near(first.item() + second.item(), ops::cross_entropy(x, targets).item(), 1e-6));
  const Numbers a = gradient(first, x), b = gradient(second, x);
  for (size_t i = 0; i < whole.size(); ++i) CHECK(near(a[i] + b[i], whole[i], 1e-7));

  const Tensor t = from({1, 0, 0.5, 1, 0}, {5}), logits = ops::sum(x, 1);
  const double mean = ops::bce_with_logits(logits, t).item();
  const double parts = ops::bce_with_logits(ops::slice(logits, 0, 0, 2), ops::slice(t, 0, 0, 2), {.items = 5}).item() +
                       ops::bce_with_logits(ops::slice(logits, 0, 2, 5), ops::slice(t, 0, 2, 5), {.items = 5}).item();
  CHECK(near(mean, parts, 1e-6));
}

TEST_CASE("losses that 16 bits cannot hold come out in f32 under a guard") {
  // Smoothing 1 on [0, L] is L/2 (+ e^-L): 31·26976 + 27376 + 5 = 863637, more than a half can hold.
  Numbers logits;
  for (int row = 0; row < 31; ++row) logits.insert(logits.end(), {0, 53952});
  logits.insert(logits.end(), {0, 54752, 0, 10});
  const Tensor x = from(logits, {33, 2}, DType::f16), targets = from_ints(std::vector<int64_t>(33, 0), {33});
  CHECK(ops::cross_entropy(x, targets, {Reduction::sum}, 1).item() == infinity);
  // The grid of bf16 near 36 is 0.25.
  const Tensor staircase = from({0, 36.25, 0, 36.5}, {2, 2}, DType::bf16), zeroth = from_ints({0, 0}, {2});
  CHECK(ops::cross_entropy(staircase, zeroth).item() == 36.5);
  {
    const ContextGuard guard = autocast(DType::f16);
    const Tensor loss = ops::cross_entropy(x, targets, {Reduction::sum}, 1);
    CHECK(loss.dtype() == DType::f32);
    CHECK(near(loss.item(), 863637, 0.0625));
    CHECK(ops::mse(from({300}, {1}, DType::f16), zeros({1}, DType::f16)).item() == 90000);
  }
  const ContextGuard guard = autocast(DType::bf16);
  CHECK(ops::cross_entropy(staircase, zeroth).item() == 36.375);
}

TEST_CASE("a sure and right classification has a small loss, not 0") {
  const Tensor x = from({30, 0, 0, 30}, {2, 2});
  CHECK(near(ops::cross_entropy(x, from_ints({0, 1}, {2})).item() / std::exp(-30.0), 1, 1e-5));
  CHECK(near(ops::bce_with_logits(from({30}, {1}), from({1}, {1})).item() / std::exp(-30.0), 1, 1e-5));
}

TEST_CASE("a target outside the classes is a data error that says where it stands") {
  const Tensor x = zeros({2, 3, 4});
  const auto error = error_of([&] { ops::cross_entropy(x, from_ints({0, 1, 2, 3, 4, 0}, {2, 3})); });
  REQUIRE(error);
  CHECK(error->kind() == ErrorKind::data);
  CHECK(error->code() == "E-TARGET");
  CHECK(contains(error->what(), "cross_entropy: target 4 at position [1, 1] is no class from 0 to 3"));
  CHECK(contains(error_text([&] {
                   ops::nll(x, from_ints({0, 1, 2, -1, 3, 0}, {2, 3}));
                 }),
                 "target -1 at position [1, 0]"));
  // A strided view of targets is read as it lies.
  const Tensor turned = ops::transpose(from_ints({0, 9, 1, 2, 3, 0}, {3, 2}), 0, 1);
  CHECK(contains(error_text([&] { ops::nll(x, turned); }), "target 9 at position [1, 0]"));
}

TEST_CASE("binary losses take logits") {
  // A sigmoid in half is 1 at 8.3203 and 0 at -17.33; from logits the loss stays finite and exact.
  const Tensor x = leaf({8.3203125, -17.328125, 1000, -1000}, {4}, DType::f16);
  const Tensor t = from({0, 1, 1, 0}, {4}, DType::f16);
  const Numbers loss = to_vector(ops::bce_with_logits(x, t, {Reduction::none}));
  CHECK(near(loss[0], 8.3203125, 0.01));
  CHECK(near(loss[1], 17.328125, 0.01));
  CHECK(loss[2] == 0);
  CHECK(loss[3] == 0);
  const Numbers slope = gradient(ops::bce_with_logits(x, t, {Reduction::sum}), x);
  CHECK(near(slope[0], 1, 1e-3));
  CHECK(near(slope[1], -1, 1e-3));
  CHECK(slope[2] == 0);
  CHECK(slope[3] == 0);

  const Tensor p = leaf({0, 1, 0.5}, {3}), q = from({0, 1, 1}, {3});
  const Tensor by_probability = ops::binary_cross_entropy(p, q, {Reduction::sum});
  CHECK(near(by_probability.item(), std::log(2.0), 1e-6));
  CHECK(gradient(by_probability, p) == Numbers{1, -1, -2});
  const ContextGuard guard = autocast(DType::bf16);
  const std::string banned = error_text([&] { ops::binary_cross_entropy(p, q); });
  CHECK(contains(banned, "E-BANNED"));
  CHECK(contains(banned, "use bce_with_logits"));
  CHECK(ops::bce_with_logits(from({0.5}, {1}, DType::bf16), from({1}, {1})).dtype() == DType::f32);
}
