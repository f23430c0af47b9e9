#include <doctest/doctest.h>

#include <cmath>
#include <thread>

#include "amp/autocast.h"
#include "autograd/backward.h"
#include "autograd/cast.h"
#include "autograd/checkpoint.h"
#include "core/factory.h"
#include "core/parameter.h"
#include "ops/ops.h"
#include "tests/shared.h"

namespace mixtape {
namespace {

using amp::Autocast;
using amp::Policy;
using tests::contains;
using tests::error_text;
using Values = std::vector<double>;

Tensor fresh_leaf(const Shape& shape, DType dtype = DType::f32) {
  return randn(shape, {.stream = rng_stream::test}, 1, 0, dtype).set_requires_grad();
}
Tensor constant(const Shape& shape, DType dtype = DType::f32) {
  return randn(shape, {.stream = rng_stream::test, .draw = 1}, 1, 0, dtype);
}

TEST_CASE("native: products leave low, statistics keep their dtype, losses and sums leave in f32") {
  for (const DType low : {DType::bf16, DType::f16}) {
    const Autocast guard(low);
    const Tensor x = constant({2, 4}), y = constant({2, 4}, low);
    const Tensor w = fresh_leaf({3, 4}), bias = fresh_leaf({3}), gamma = fresh_leaf({4}), beta = fresh_leaf({4}),
                 table = fresh_leaf({5, 4});
    CHECK(ops::linear(x, w, bias).dtype() == low);
    CHECK(ops::matmul(x, ops::transpose(y, 0, 1)).dtype() == low);
    CHECK(ops::embedding(table, from_ints({1, 0}, {2})).dtype() == low);
    CHECK(ops::layer_norm(y, gamma, beta).dtype() == low);
    CHECK(ops::layer_norm(x, gamma, beta).dtype() == DType::f32);
    CHECK(ops::softmax(y).dtype() == low);
    CHECK(ops::gelu(y).dtype() == low);
    CHECK(ops::add(x, y).dtype() == DType::f32);
    CHECK(ops::add(y, y).dtype() == low);
    CHECK(ops::sum(y).dtype() == DType::f32);
    CHECK(ops::exp(y).dtype() == DType::f32);
    CHECK(ops::log_softmax(y).dtype() == DType::f32);
    CHECK(ops::cross_entropy(y, from_ints({1, 2}, {2})).dtype() == DType::f32);
    CHECK(ops::reshape(y, {4, 2}).dtype() == low);
  }
}

TEST_CASE("presets: norms and softmax leave in f32 under apex_O1, lookups stay in f32 under torch_cpu") {
  const Tensor y = constant({2, 4}, DType::bf16), gamma = fresh_leaf({4}), beta = fresh_leaf({4}),
               table = fresh_leaf({5, 4});
  {
    const Autocast guard(Policy::load("apex_O1"), DType::bf16);
    CHECK(ops::softmax(y).dtype() == DType::f32);
    CHECK(ops::layer_norm(y, gamma, beta).dtype() == DType::f32);
    CHECK(contains(error_text([&] { ops::binary_cross_entropy(y, y); }), "E-BANNED"));
  }
  const Autocast guard(Policy::load("torch_cpu"), DType::bf16);
  CHECK(ops::softmax(y).dtype() == DType::bf16);
  CHECK(ops::embedding(table, from_ints({1, 0}, {2})).dtype() == DType::f32);
  CHECK(ops::sum(y).dtype() == DType::bf16);
  CHECK(ops::binary_cross_entropy(full({2}, 0.5, DType::bf16), full({2}, 1, DType::bf16)).dtype() == DType::f32);
}

TEST_CASE("the banned op names the right one, and only inside a guard") {
  const Tensor p = full({2}, 0.5), t = full({2}, 1);
  CHECK(ops::binary_cross_entropy(p, t).item() == doctest::Approx(std::log(2)));
  const Autocast guard(DType::bf16);
  CHECK(contains(error_text([&] { ops::binary_cross_entropy(p, t); }), "bce_with_logits"));
}

TEST_CASE("guards nest, each restoring what it found, also when an exception leaves them") {
  const Tensor x = constant({2, 2}), w = fresh_leaf({2, 2});
  const auto dtype = [&] { return ops::linear(x, w).dtype(); };
  CHECK(dtype() == DType::f32);
  {
    const Autocast outer(DType::bf16);
    CHECK(dtype() == DType::bf16);
    {
      const Autocast inner(DType::f16);
      CHECK(dtype() == DType::f16);
      const Autocast island(DType::f16, false);
      CHECK(dtype() == DType::f32);
    }
    CHECK(dtype() == DType::bf16);
    try {
      const Autocast inner(DType::f16);
      fail(ErrorKind::internal, "E-TEST", "out");
    } catch (const Error&) {
    }
    CHECK(dtype() == DType::bf16);
  }
  CHECK(dtype() == DType::f32);
  CHECK(contains(error_text([] { Autocast guard(DType::f64); }), "E-AUTOCAST-DTYPE"));
}

TEST_CASE("in a disabled island ops run in the dtypes of their inputs, and mixed ones are named with their origin") {
  const Autocast outer(DType::bf16);
  const Tensor w = fresh_leaf({2, 2});
  const Tensor low = ops::linear(constant({2, 2}), w);
  const Autocast island(DType::bf16, false);
  CHECK(ops::gelu(low).dtype() == DType::bf16);
  const std::string text = error_text([&] { ops::linear(low, w); });
  CHECK(contains(text, "E-DTYPE: linear: input 'weight' is f32 (a leaf), but 'x' is bf16 (the result of linear)"));
}

TEST_CASE("f64 is never cast") {
  const Autocast guard(DType::bf16);
  CHECK(ops::linear(constant({2, 2}, DType::f64), fresh_leaf({2, 2}, DType::f64)).dtype() == DType::f64);
  CHECK(ops::sum(constant({2}, DType::f64)).dtype() == DType::f64);
}

TEST_CASE("an f32 weight gets an f32 gradient, not rounded to 16 bits on its way") {
  const Tensor w = fresh_leaf({1, 1}), x = full({2, 1}, 1);
  const Tensor loss = [&] {
    const Autocast guard(DType::bf16);
    return ops::sum(ops::mul(ops::linear(x, w), from({1, 1.0 / 512}, {2, 1})));
  }();
  CHECK(loss.dtype() == DType::f32);
  autograd::backward(loss);
  CHECK(w.leaf().gradient.raw.dtype() == DType::f32);
  CHECK(to_vector(w.grad()) == Values{1 + 1.0 / 512});  // 1 in bf16
}

TEST_CASE("a forward without recording before one with it, in one guard: the gradient is there") {
  const Tensor w = fresh_leaf({2, 2}), x = constant({2, 2});
  const Autocast guard(DType::bf16);
  {
    const NoGradGuard no_grad;
    CHECK_FALSE(ops::linear(x, w).requires_grad());
  }
  const Tensor y = ops::linear(x, w);
  CHECK(y.requires_grad());
  autograd::backward(ops::sum(y));
  CHECK(w.grad());
}

TEST_CASE("a weight that is written inside a guard is cast anew") {
  const Tensor w = from({1}, {1, 1}).set_requires_grad(), x = full({1, 1}, 1);
  const Autocast guard(DType::bf16);
  CHECK(ops::linear(x, w).item() == 1);
  assign(w, from({3}, {1, 1}));
  CHECK(ops::linear(x, w).item() == 3);
}

TEST_CASE("one 16-bit copy of a weight serves all its uses; views and expansions of it are not copied whole") {
  const Tensor w = fresh_leaf({4, 4}), x = constant({2, 4});
  const Autocast guard(DType::bf16);
  const Tensor a = autograd::cast(w, DType::bf16), b = autograd::cast(w, DType::bf16);
  CHECK(a.storage().same_as(b.storage()));
  CHECK_FALSE(a.same_as(b));  // bytes are shared, nodes never
  autograd::backward(ops::sum(ops::add(ops::linear(x, w), ops::linear(x, w))));
  const Values twice = to_vector(w.grad());
  w.leaf().gradient = {};
  autograd::backward(ops::sum(ops::linear(x, w)));
  const Values once = to_vector(w.grad());
  for (size_t i = 0; i < once.size(); ++i) CHECK(twice[i] == doctest::Approx(2 * once[i]));
}

TEST_CASE("the sweep runs outside the guard's casts, on any thread, in the dtypes of the forward") {
  const Tensor w = fresh_leaf({3, 4}), x = constant({2, 4});
  const auto swept = [&](auto run) {
    w.leaf().gradient = {};
    const Tensor loss = [&] {
      const Autocast guard(DType::bf16);
      return ops::sum(ops::gelu(ops::linear(x, w)));
    }();
    run([&] { autograd::backward(loss); });
    return to_vector(w.grad());
  };
  const Values plain = swept([](auto f) { f(); });
  CHECK(plain == swept([](auto f) {
          const Autocast other(DType::f16);
          f();
        }));
  CHECK(plain == swept([](auto f) { std::thread(f).join(); }));
}

TEST_CASE("checkpointing runs a part again under the policy of its first run, islands among it") {
  const Tensor w = fresh_leaf({4, 4}), x = fresh_leaf({2, 4});
  const auto part = [&](const Tensors& in) -> Tensors {
    const Tensor y = ops::gelu(ops::linear(in[0], w));
    const Autocast island(DType::bf16, false);
    return {ops::softmax(ops::mul(y, y))};
  };
  const auto gradients = [&](bool checkpointed) {
    w.leaf().gradient = x.leaf().gradient = {};
    const Tensor loss = [&] {
      const Autocast guard(Policy::load("apex_O1"), DType::bf16);
      const Tensor y = checkpointed ? autograd::checkpoint(part, {x})[0] : part({x})[0];
      CHECK(y.dtype() == DType::bf16);
      return ops::sum(ops::mul(y, constant({2, 4}, DType::bf16)));
    }();
    autograd::backward(loss);
    return std::pair(to_vector(w.grad()), to_vector(x.grad()));
  };
  CHECK(gradients(true) == gradients(false));
}

TEST_CASE("an override replaces one row") {
  Policy policy = Policy::load("native");
  policy.replace("gelu", "full");
  const Autocast guard(policy, DType::bf16);
  const Tensor y = constant({2, 4}, DType::bf16);
  CHECK(ops::gelu(y).dtype() == DType::f32);
  CHECK(ops::tanh(y).dtype() == DType::bf16);
}

TEST_CASE("without a guard a sum of 70,000 half ones is inf, with one it is 70,000") {
  const Tensor ones = full({70'000}, 1, DType::f16);
  CHECK(std::isinf(ops::sum(ones).item()));
  const Autocast guard(DType::f16);
  CHECK(ops::sum(ones).item() == 70'000);
}

}  // namespace
}  // namespace mixtape
