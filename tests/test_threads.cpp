// F24: our own loops give the same bits on every thread count, on tensors that are large enough to be shared.
#include <doctest/doctest.h>

#include <functional>
#include <vector>

#include "autograd/backward.h"
#include "core/allocator.h"
#include "core/factory.h"
#include "core/kernels/basic.h"
#include "core/kernels/parallel.h"
#include "core/parameter.h"
#include "ops/ops.h"

using namespace mixtape;

namespace {

Tensor normal(const Shape& shape, uint32_t draw, DType dtype = DType::f32) {
  RngCoordinates at;
  at.stream = rng_stream::test;
  at.draw = draw;
  return randn(shape, at, 1.0, 0.0, dtype);
}

// Value and gradients of one expression.
using Bits = std::vector<std::vector<double>>;
Bits run(const std::function<Tensor(const Tensor&)>& f, DType dtype) {
  const RngGuard rng(RngCoordinates{5, rng_stream::dropout, 3, 0, 0});
  const Tensor x = normal({300, 257}, 1, dtype).set_requires_grad();  // 77,100 elements: several ranges, odd tails
  const Tensor y = f(x);
  autograd::backward({y}, {normal(y.shape(), 2, y.dtype())}, {});
  return {to_vector(y), to_vector(x.grad())};
}

}  // namespace

TEST_CASE("own ops: the same bits on 1, 2, 3, 4 and 8 threads") {
  const Tensor gamma = normal({257}, 3).set_requires_grad(), beta = normal({257}, 4).set_requires_grad();
  const Tensor row = normal({257}, 5);
  std::vector<int64_t> ids;
  for (int64_t i = 0; i < 300; ++i) ids.push_back(i * i % 300);
  const Tensor index = from_ints(ids, {300});
  const std::vector<std::pair<const char*, std::function<Tensor(const Tensor&)>>> expressions = {
      {"gelu", [](const Tensor& x) { return ops::gelu(x); }},
      {"softmax", [](const Tensor& x) { return ops::softmax(x); }},
      {"softmax along columns", [](const Tensor& x) { return ops::softmax(x, 0); }},
      {"layer_norm", [&](const Tensor& x) { return ops::layer_norm(x, gamma, beta); }},
      {"sum", [](const Tensor& x) { return ops::sum(x); }},
      {"sum over rows", [](const Tensor& x) { return ops::sum(x, 0); }},
      {"norm", [](const Tensor& x) { return ops::norm(x); }},
      {"var", [](const Tensor& x) { return ops::var(x, 1); }},
      {"dropout", [](const Tensor& x) { return ops::dropout(x, 0.3); }},
      {"broadcast add", [&](const Tensor& x) { return ops::mul(ops::add(x, x), row.dtype() == x.dtype() ? row : x); }},
      {"index_select", [&](const Tensor& x) { return ops::index_select(x, 0, index); }},
  };
  const int before = kernels::thread_count();
  for (const auto& expression : expressions) {
    const auto& name = expression.first;
    const auto& f = expression.second;
    for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
      kernels::set_thread_count(1);
      const Bits alone = run(f, dtype);
      const std::vector<double> gamma_alone = gamma.leaf().gradient ? to_vector(gamma.grad()) : std::vector<double>();
      gamma.leaf().gradient = beta.leaf().gradient = {};
      for (const int threads : {2, 3, 4, 8}) {
        kernels::set_thread_count(threads);
        INFO(name << " " << name_of(dtype) << " on " << threads << " threads");
        CHECK((run(f, dtype) == alone));
        if (gamma.leaf().gradient) CHECK((to_vector(gamma.grad()) == gamma_alone));
        gamma.leaf().gradient = beta.leaf().gradient = {};
      }
    }
  }
  kernels::set_thread_count(before);
}

TEST_CASE("embedding gradients and the optimizer's reading pass: the same bits on every thread count") {
  const Tensor table = normal({500, 64}, 6).set_requires_grad();
  std::vector<int64_t> ids;
  for (int64_t i = 0; i < 4096; ++i) ids.push_back(i * 7919 % 500 / (1 + i % 3));
  const Tensor index = from_ints(ids, {4096}), dy = normal({4096, 64}, 7);
  const int before = kernels::thread_count();
  std::vector<double> first;
  for (const int threads : {1, 2, 3, 4, 8}) {
    kernels::set_thread_count(threads);
    autograd::backward({ops::embedding(table, index)}, {dy}, {});
    std::vector<double> bits = to_vector(table.grad());
    const kernels::Census census = kernels::census(table.leaf().gradient.raw.view());
    bits.push_back(census.sum_of_squares);
    bits.push_back(census.max_abs);
    table.leaf().gradient = {};
    if (first.empty()) first = bits;
    CHECK((bits == first));
  }
  kernels::set_thread_count(before);
}

TEST_CASE("embeddings as one row: the same bits on every thread count, whatever repeats") {
  const Tensor words = normal({500, 64}, 6).set_requires_grad(), types = normal({2, 64}, 8).set_requires_grad(),
               gamma = normal({64}, 9).set_requires_grad(), beta = normal({64}, 10).set_requires_grad();
  std::vector<int64_t> ids, places;
  for (int64_t i = 0; i < 4096; ++i) ids.push_back(i * 7919 % 500 / (1 + i % 3));
  for (int64_t i = 0; i < 64; ++i) places.push_back(i);
  const Tensor word_ids = from_ints(ids, {64, 64}), type_ids = from_ints({1}, {1}),
               position_ids = from_ints(places, {64});
  const int before = kernels::thread_count();
  std::vector<double> first;
  for (const int threads : {1, 2, 3, 4, 8}) {
    kernels::set_thread_count(threads);
    const RngGuard rng(RngCoordinates{5, rng_stream::dropout, 3, 0, 0});
    const Tensor positions = normal({64, 64}, 11).set_requires_grad();
    const Tensor y =
        ops::embed_layer_norm({words, word_ids}, {types, type_ids}, {positions, position_ids}, gamma, beta, 0.3);
    Tensors made = autograd::grad({y}, {words, types, positions, gamma, beta}, {}, {normal(y.shape(), 7)});
    made.push_back(y);
    std::vector<double> bits;
    for (const Tensor& t : made) {
      const std::vector<double> values = to_vector(t);
      bits.insert(bits.end(), values.begin(), values.end());
    }
    if (first.empty()) first = bits;
    CHECK((bits == first));
  }
  kernels::set_thread_count(before);
}

TEST_CASE("what attention needs of memory does not depend on which threads meet") {
  const int before = kernels::thread_count();
  kernels::set_thread_count(8);
  const Tensor x = normal({8 * 24, 64}, 1);
  const ops::Sequences sequences{from_ints({0, 24, 48, 72, 96, 120, 144, 168, 192}, {9}), 24};
  std::vector<int64_t> peaks;
  for (int round = 0; round < 40; ++round) {
    cpu_allocator().reset_peak();
    const int64_t live = cpu_allocator().stats().live_bytes;
    (void)ops::attention(x, x, x, sequences, 4);
    peaks.push_back(cpu_allocator().stats().peak_bytes - live);
  }
  CHECK(peaks == std::vector<int64_t>(40, peaks[0]));
  kernels::set_thread_count(before);
}
