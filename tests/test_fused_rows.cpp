// Single fused rows against the ops that they stand for: joint_linear and embed_layer_norm.
#include <doctest/doctest.h>

#include "amp/policy.h"
#include "autograd/backward.h"
#include "autograd/cast.h"
#include "core/allocator.h"
#include "core/factory.h"
#include "core/kernels/layout.h"
#include "nn/encoder_layer.h"
#include "tests/distance.h"
#include "tests/shared.h"

using namespace mixtape;
using tests::distance;

TEST_CASE("queries, keys and values lie end to end: weights, biases, and their twins in 16 bits, also made anew") {
  const nn::TransformerEncoderLayer layer({24, 2, 40, 0, 0, 1e-12});
  Views weights, biases;
  Tensors leaves;
  for (const NamedTensor& p : layer.parameters()) {
    if (!p.name.starts_with("attention.self.")) continue;
    (p.tensor.rank() == 2 ? weights : biases).push_back(p.tensor.view());
    leaves.push_back(p.tensor);
  }
  CHECK(weights.size() == 3);
  CHECK(kernels::joined(weights).shape == Shape{72, 24});
  CHECK(kernels::joined(biases).shape == Shape{72});
  CHECK(!kernels::joined({weights[0], weights[2]}));
  CHECK(!kernels::joined({weights[1], weights[0]}));
  CHECK(tests::contains(tests::error_text([&] { (void)leaves[0].storage().part(2300, 5); }), "E-STORAGE"));

  const uint32_t neighbour = leaves[2].storage().version();
  assign(leaves[0], full({24, 24}, 0.5));  // one part is written: no other's version moves
  CHECK(leaves[2].storage().version() == neighbour);

  Tensors held;  // what a graph keeps of the twins of this moment
  for (int round = 0; round < 3; ++round) {
    Views twins;
    for (int i = 0; i < 3; ++i) {
      const Tensor& weight = leaves[2 * i];
      assign(weight, full({24, 24}, round + 1.0 + i));
      const Tensor twin = autograd::cast(weight, DType::bf16).detach();
      twins.push_back(twin.view());
      held.push_back(twin);
    }
    CHECK(kernels::joined(twins).shape == Shape{72, 24});
  }
  for (int i = 0; i < held.size(); ++i) CHECK(to_vector(held[i]).back() == i / 3 + 1.0 + i % 3);
}

TEST_CASE("one product of three layers' weights, wherever they lie, gives what each layer gives") {
  const RngCoordinates at{.stream = rng_stream::test};
  const Tensor x = randn({5, 24}, at).set_requires_grad();
  for (const bool end_to_end : {true, false}) {
    Tensors weights, biases;
    const Tensors all = zeros_end_to_end(3, {8, 24}), shifts = zeros_end_to_end(3, {8});
    for (int i = 0; i < 3; ++i) {
      weights.push_back(end_to_end ? all[i] : zeros({8, 24}));
      biases.push_back(end_to_end ? shifts[i] : zeros({8}));
      assign(weights[i], randn({8, 24}, {.stream = rng_stream::test, .step = 1, .draw = static_cast<uint32_t>(i)}));
      assign(biases[i], randn({8}, {.stream = rng_stream::test, .step = 2, .draw = static_cast<uint32_t>(i)}));
      weights[i].set_requires_grad();
      biases[i].set_requires_grad();
    }
    const auto sweep = [&] {
      const Tensors y = ops::joint_linear(x, weights, biases);
      std::vector<double> out;
      Tensor loss;
      for (int i = 0; i < 3; ++i) {
        const std::vector<double> values = to_vector(y[i]);
        out.insert(out.end(), values.begin(), values.end());
        const Tensor part = ops::sum(ops::mul(y[i], randn({5, 8}, {.stream = rng_stream::test, .step = 3})));
        loss = loss ? ops::add(loss, part) : part;
      }
      autograd::backward(loss);
      for (const Tensors& leaves : {Tensors{x}, weights, biases}) {
        for (const Tensor& leaf : leaves) {
          const std::vector<double> g = to_vector(leaf.grad());
          out.insert(out.end(), g.begin(), g.end());
          leaf.leaf().gradient = {};
        }
      }
      return out;
    };
    const std::vector<double> joint = sweep();
    const ComposedGuard composed;
    CHECK(distance(joint, sweep()) < 1e-6);
  }
}

namespace {

// The embeddings of two texts, padded or packed, and what they are made of.
struct Embeddings {
  Tensor words = leaf({11, 20}, 1), types = leaf({2, 20}, 2), positions = leaf({6, 20}, 3), gamma = leaf({20}, 4),
         beta = leaf({20}, 5);
  bool packed = false;

  static Tensor leaf(const Shape& shape, uint32_t draw) {
    return randn(shape, {.stream = rng_stream::test, .draw = draw}).set_requires_grad();
  }
  Tensor run(double p) const {
    const RngGuard rng({.seed = 9, .stream = rng_stream::dropout, .step = 5});
    const Tensor y = packed ? ops::embed_layer_norm({words, from_ints({3, 10, 3, 7, 3}, {5})},
                                                    {types, from_ints({0, 1, 0, 0, 0}, {5})},
                                                    {positions, from_ints({0, 1, 0, 1, 2}, {5})}, gamma, beta, p, 1e-12,
                                                    from_ints({0, 1, 3, 4, 5}, {5}))
                            : ops::embed_layer_norm({words, from_ints({3, 10, 0, 3, 7, 3}, {2, 3})},
                                                    {types, from_ints({0, 1, 1, 0, 0, 0}, {2, 3})},
                                                    {positions, from_ints({0, 1, 2}, {3})}, gamma, beta, p);
    CHECK(context().rng.draw == 1);
    return y;
  }
  std::vector<double> gradients(const Tensor& y) const {
    std::vector<double> all;
    const Tensor rough = randn(y.shape(), {.stream = rng_stream::test, .draw = 6}, 1.0, 0.0, DType::bf16);
    for (const Tensor& g : autograd::grad({y}, {words, types, positions, gamma, beta}, {},
                                          {copy_of(rough, y.dtype())})) {  // the same numbers in every dtype
      CHECK(g.dtype() == DType::f32);
      const std::vector<double> values = to_vector(g);
      all.insert(all.end(), values.begin(), values.end());
    }
    return all;
  }
};

}  // namespace

TEST_CASE("embeddings as one row: values, gradients and masks of the composed ops") {
  for (const bool packed : {false, true}) {
    for (const double p : {0.0, 0.4}) {
      Embeddings e;
      e.packed = packed;
      const Tensor fused = e.run(p);
      const std::vector<double> slopes = e.gradients(fused);
      const ComposedGuard guard;
      const Tensor composed = e.run(p);
      CHECK(fused.shape() == composed.shape());
      CHECK(to_vector(fused) == to_vector(composed));  // the same formulas in the same order
      CHECK(distance(slopes, e.gradients(composed)) < 1e-6);
    }
  }
}

TEST_CASE("embeddings as one row: a packed token has the mask of its place in the padded batch") {
  Embeddings e;
  const std::vector<double> padded = to_vector(e.run(0.4));
  e.packed = true;
  const std::vector<double> packed = to_vector(e.run(0.4));
  const size_t places[] = {0, 1, 3, 4, 5};
  for (size_t row = 0; row < 5; ++row) {
    for (size_t i = 0; i < 20; ++i) CHECK(packed[row * 20 + i] == padded[places[row] * 20 + i]);
  }
}

TEST_CASE("embeddings as one row: in 16 bits one rounding, of the result, and none of a gradient") {
  const Embeddings e;
  const Tensor exact = e.run(0.4);
  const std::vector<double> slopes = e.gradients(exact);
  for (const DType low : {DType::bf16, DType::f16}) {
    ContextGuard modes;
    context().cast_rule = amp::make_rule(amp::Policy::load("native"), low);
    const Tensor fused = e.run(0.4);
    CHECK(fused.dtype() == low);
    CHECK(to_vector(fused) == to_vector(copy_of(exact, low)));
    CHECK(e.gradients(fused) == slopes);
    const ComposedGuard guard;
    CHECK(distance(slopes, e.gradients(e.run(0.4))) > 1e-4);
  }
}

TEST_CASE("embeddings as one row: no row is kept for the way back") {
  const Embeddings e;
  const auto kept = [&] {
    const int64_t before = cpu_allocator().stats().live_bytes;
    const Tensor y = e.run(0.4);
    return cpu_allocator().stats().live_bytes - before;
  };
  const int64_t rows = 6 * 20 * 4, fused = kept();
  CHECK(fused >= rows);  // the result
  const ComposedGuard guard;
  CHECK(kept() >= fused + rows / 2);
}

TEST_CASE("embeddings as one row: errors name the table, and mixed dtypes go to the composed ops") {
  Embeddings e;
  e.positions = Embeddings::leaf({2, 20}, 3);
  CHECK(tests::contains(tests::error_text([&] { (void)e.run(0); }),
                        "E-INDEX: embed_layer_norm: position_ids: index 2 at [2] is outside [0, 2)"));
  e.positions = copy_of(Embeddings::leaf({6, 20}, 3), DType::f64);
  CHECK(tests::contains(tests::error_text([&] { (void)e.run(0); }), "layer_norm: input 'gamma' is kept in f64"));
}
