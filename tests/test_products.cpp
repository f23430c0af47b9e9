// Matrix products as ops: where they round, what their gradients are wide in, and second order.
#include <doctest/doctest.h>

#include <memory>
#include <vector>

#include "autograd/backward.h"
#include "core/context.h"
#include "core/factory.h"
#include "core/op.h"
#include "core/parameter.h"
#include "ops/ops.h"

namespace mixtape {
namespace {

using Values = std::vector<double>;

Tensor leaf(Tensor x) { return x.set_requires_grad(); }
Tensor random(const Shape& shape, uint32_t draw, DType dtype = DType::f32) {
  return rand_uniform(shape, {3, rng_stream::test, 0, 0, draw}, -1, 1, dtype);
}

Context under(DType low) {
  const auto rule = std::make_shared<CastRule>();
  rule->low = low;
  Context modes = context();
  modes.cast_rule = rule;
  return modes;
}

// aᵀ·b in double.
Values product(const Tensor& a, const Tensor& b) {
  const Values x = to_vector(a), y = to_vector(b);
  const size_t rows = static_cast<size_t>(a.size(0)), m = static_cast<size_t>(a.size(1));
  const size_t n = static_cast<size_t>(b.size(1));
  Values out(m * n);
  for (size_t r = 0; r < rows; ++r) {
    for (size_t i = 0; i < m; ++i) {
      for (size_t j = 0; j < n; ++j) out[i * n + j] += x[r * m + i] * y[r * n + j];
    }
  }
  return out;
}

}  // namespace

TEST_CASE("the weight gradient leaves a 16-bit product unrounded, in the plain and in the recorded sweep") {
  for (DType low : {DType::bf16, DType::f16}) {
    const Tensor x = random({37, 8}, 0), w = leaf(random({5, 8}, 1)), b = leaf(random({5}, 2));
    const Tensor v = leaf(random({8, 5}, 3)), seed = random({37, 5}, 4, low);
    Tensor y, z;
    {
      const ContextGuard guard(under(low));
      y = ops::linear(x, w, b);
      z = ops::matmul(x, v);
    }
    CHECK(y.dtype() == low);
    const Tensor x_low = copy_of(x, low);
    const Values dw = product(seed, x_low), dv = product(x_low, seed), db = product(seed, full({37, 1}, 1.0));
    for (bool recorded : {false, true}) {
      const autograd::BackwardOptions options{.retain_graph = true, .create_graph = recorded};
      const Tensors found = autograd::grad({y, z}, {w, b, v}, options, {seed, seed});
      const Values* wanted[] = {&dw, &db, &dv};
      for (int i = 0; i < 3; ++i) {
        CHECK(found[i].dtype() == DType::f32);
        const Values got = to_vector(found[i]);
        for (size_t k = 0; k < got.size(); ++k) {
          CHECK(got[k] == doctest::Approx((*wanted[i])[k]).epsilon(1e-5).scale(1));
        }
      }
    }
  }
}

TEST_CASE("batched_matmul scales before it rounds") {
  const Tensor a = full({2, 1, 1}, 256, DType::f16), b = full({2, 1, 1}, 256, DType::f16);
  CHECK(to_vector(ops::batched_matmul(a, b, 0.5)) == Values{32768, 32768});  // 65536 is beyond half
}

TEST_CASE("the gradient of a broadcast batch is summed before it is rounded") {
  const Tensor a = leaf(full({1, 1}, 1.0, DType::bf16)), b = full({300, 1, 1}, 1.0, DType::bf16);
  const Tensor y = ops::batched_matmul(a, b);
  autograd::backward({y}, {full({300, 1, 1}, 1.0, DType::bf16)});
  CHECK(to_vector(a.grad()) == Values{300});  // a sum in bf16 stops at 256
}

TEST_CASE("linear of one vector is linear of one row") {
  const Tensor x = random({8}, 0), w = random({5, 8}, 1), b = random({5}, 2);
  const Tensor y = ops::linear(x, w, b);
  CHECK(y.shape() == Shape{5});
  CHECK(to_vector(y) == to_vector(ops::linear(ops::unsqueeze(x, 0), w, b)));
}

TEST_CASE("a gradient penalty goes through linear") {
  const Tensor x = leaf(random({3, 4}, 0, DType::f64)), w = leaf(random({2, 4}, 1, DType::f64));
  const Tensor dy = leaf(random({3, 2}, 2, DType::f64)), direction = random({3, 4}, 3, DType::f64);
  const Tensors dx = autograd::grad({ops::linear(x, w)}, {x}, {.create_graph = true}, {dy});  // dy·W
  const Tensors second = autograd::grad(dx, {w, dy}, {}, {direction});
  const Values dw = product(dy, direction), got = to_vector(second[0]);
  for (size_t i = 0; i < dw.size(); ++i) CHECK(got[i] == doctest::Approx(dw[i]).epsilon(1e-13));
  const Values ddy = product(ops::transpose(direction, 0, 1), ops::transpose(w, 0, 1)), got_dy = to_vector(second[1]);
  for (size_t i = 0; i < ddy.size(); ++i) CHECK(got_dy[i] == doctest::Approx(ddy[i]).epsilon(1e-13));
}

}  // namespace mixtape
