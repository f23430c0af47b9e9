// Embedding and gathers: gradients in f32, in one order, whatever repeats and whoever computes.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

#include "autograd/backward.h"
#include "core/context.h"
#include "core/factory.h"
#include "core/kernels/parallel.h"
#include "core/op.h"
#include "core/parameter.h"
#include "ops/ops.h"
#include "tests/shared.h"

namespace mixtape {
namespace {

using Values = std::vector<double>;

Tensor leaf(Tensor x) { return x.set_requires_grad(); }

Context under(DType low) {
  const auto rule = std::make_shared<CastRule>();
  rule->low = low;
  Context modes = context();
  modes.cast_rule = rule;
  return modes;
}

// A generator of ids in which some are much more frequent than others, as padding and [CLS] are.
Tensor skewed_ids(int64_t count, int64_t rows) {
  std::vector<int64_t> ids;
  RngCoordinates at;
  at.stream = rng_stream::test;
  for (int64_t i = 0; i < count; ++i) {
    const double u = uniform32(at, static_cast<uint64_t>(i));
    ids.push_back(i % 3 == 0 ? 0 : static_cast<int64_t>(u * u * static_cast<double>(rows)));
  }
  return from_ints(ids, {count});
}

}  // namespace

TEST_CASE("a frequent row's gradient neither stalls nor overflows") {
  constexpr int64_t count = 100000, rows = 8;
  std::vector<int64_t> ids(count);
  for (int64_t i = 0; i < count; ++i) ids[static_cast<size_t>(i)] = i % rows;
  for (DType low : {DType::f16, DType::bf16}) {
    const Tensor table = leaf(full({rows, 1}, 1.0));
    const ContextGuard guard(under(low));
    const Tensor y = ops::embedding(table, from_ints(ids, {count}));
    CHECK(y.dtype() == low);
    const Tensor seed = full({count, 1}, 0.01, low);
    autograd::backward({y}, {seed});
    const double wanted = to_vector(seed)[0] * (count / rows);  // half stops at 32, bf16 at 2
    for (double value : to_vector(table.grad())) CHECK(value == doctest::Approx(wanted).epsilon(1e-6));
  }
  const Tensor table = leaf(full({5, 2}, 1.0));
  const ContextGuard guard(under(DType::f16));
  autograd::backward({ops::embedding(table, from_ints({3, 1, 3}, {3}))}, {full({3, 2}, 40000, DType::f16)});
  CHECK(to_vector(table.grad()) == Values{0, 0, 40000, 40000, 0, 0, 80000, 80000, 0, 0});  // half ends at 65504
}

TEST_CASE("embedding reads an f32 table, never a 16-bit copy of it") {
  const Tensor table = leaf(from({1.0 + 0x1p-12, 2, 3, 4}, {2, 2}));
  Tensor y;
  {
    const ContextGuard guard(under(DType::bf16));
    y = ops::embedding(table, from_ints({0, 1, 0}, {3, 1}));
  }
  CHECK(y.dtype() == DType::bf16);
  CHECK(y.shape() == Shape{3, 1, 2});
  CHECK(to_vector(y) == Values{1, 2, 3, 4, 1, 2});
  CHECK_FALSE(static_cast<bool>(table.leaf().shadow.bytes));
  CHECK(ops::embedding(table, from_ints({0}, {1})).dtype() == DType::f32);
  autograd::backward({y}, {full({3, 1, 2}, 0.5, DType::bf16)});
  CHECK(table.leaf().gradient.raw.dtype() == DType::f32);
  CHECK(to_vector(table.grad()) == Values{1, 1, 0.5, 0.5});
}

TEST_CASE("the bits of a gradient depend neither on threads nor on strides") {
  constexpr int64_t count = 3000, rows = 50, width = 97;
  const Tensor ids = skewed_ids(count, rows);
  RngCoordinates at;
  const Tensor dy = randn({count, width}, at);
  const auto gradient = [&](const Tensor& seed, const Tensor& index) {
    const Tensor table = leaf(zeros({rows, width}));
    autograd::backward({ops::embedding(table, index)}, {seed});
    return to_vector(table.grad());
  };
  const auto selected = [&] {
    const Tensor x = leaf(zeros({width, rows}, DType::bf16));
    autograd::backward({ops::index_select(x, 1, ids)}, {copy_of(ops::transpose(dy, 0, 1), DType::bf16)});
    return to_vector(x.grad());
  };
  const auto gathered = [&] {
    const Tensor x = leaf(zeros({rows, width}));
    const Tensor index = ops::expand(ops::unsqueeze(ids, 1), {count, width});
    autograd::backward({ops::gather(x, 0, index)}, {dy});
    return to_vector(x.grad());
  };
  const Values table = gradient(dy, ids), columns = selected(), elements = gathered();
  const int threads = kernels::thread_count();
  for (int number : {1, 2, 3, 8}) {
    kernels::set_thread_count(number);
    CHECK(gradient(dy, ids) == table);
    CHECK(selected() == columns);
    CHECK(gathered() == elements);
  }
  kernels::set_thread_count(threads);
  const Tensor turned = ops::transpose(copy_of(ops::transpose(dy, 0, 1)), 0, 1);
  CHECK(gradient(turned, ids) == table);
  const Tensor every_second = ops::slice(ops::reshape(ops::stack({ids, ids}, 1), {2 * count}), 0, 0, ops::to_end, 2);
  CHECK_FALSE(every_second.contiguous());
  CHECK(gradient(dy, every_second) == table);

  Values exact(rows * width), sizes(rows * width), counts(rows);
  const Values seeds = to_vector(dy), places = to_vector(ids);
  for (size_t i = 0; i < places.size(); ++i) {
    const size_t row = static_cast<size_t>(places[i]);
    ++counts[row];
    for (size_t j = 0; j < width; ++j) {
      exact[row * width + j] += seeds[i * width + j];
      sizes[row * width + j] += std::abs(seeds[i * width + j]);
    }
  }
  for (size_t i = 0; i < exact.size(); ++i) {  // an addition errs by half an ulp of the sum so far
    const double terms = counts[i / width], unit = 0x1p-24 * sizes[i];
    CHECK(std::abs(table[i] - exact[i]) <= (std::min(terms, 256.0) + terms / 256) * unit);
    CHECK(std::abs(elements[i] - exact[i]) <= terms * unit);
  }
}

TEST_CASE("a table's gradient is the rows that were named, until a second one meets it or somebody else asks") {
  const Tensor table = leaf(randn({50, 7}, {.stream = rng_stream::test}));
  const Tensor seed = randn({6, 7}, {.stream = rng_stream::test, .draw = 1});
  const Tensor ids = from_ints({30, 4, 4, 49, 30, 4}, {6});
  Values whole(350);
  const Values values = to_vector(seed), places = to_vector(ids);
  for (size_t i = 0; i < 42; ++i) {
    whole[static_cast<size_t>(places[i / 7]) * 7 + i % 7] += values[i];
  }
  const auto near = [&](const Tensor& got, double times) {
    const Values is = to_vector(got);
    REQUIRE(is.size() == whole.size());
    for (size_t i = 0; i < is.size(); ++i) CHECK(is[i] == doctest::Approx(times * whole[i]).epsilon(1e-6));
  };
  const Gradient& gradient = table.leaf().gradient;
  const auto lookup = [&] { return ops::embedding(table, ids); };

  autograd::backward({lookup()}, {seed});
  CHECK(to_vector(gradient.rows) == Values{4, 30, 49});
  CHECK(gradient.raw.shape() == Shape{3, 7});
  near(table.grad(), 1);
  autograd::backward({lookup()}, {seed});  // a second sweep
  CHECK(!gradient.rows);
  near(table.grad(), 2);

  table.leaf().gradient = {};
  autograd::backward({lookup(), lookup()}, {seed, seed});  // two uses in one sweep
  CHECK(!gradient.rows);
  near(table.grad(), 2);

  table.leaf().gradient = {};
  near(autograd::grad({lookup()}, {table}, {}, {seed})[0], 1);  // asked for by name
  CHECK(!gradient);
  autograd::backward({ops::embedding(table, from_ints(std::vector<int64_t>(50, 3), {50}))}, {full({50, 7}, 1.0)});
  CHECK(!gradient.rows);  // as many ids as rows: all of it is no larger
}

TEST_CASE("a padding row gets no gradient, and its value is read as any other") {
  const Tensor table = leaf(from({1, 2, 3}, {3, 1}));
  const Tensor y = ops::embedding(table, from_ints({0, 2, 0, 1}, {4}), 0);
  CHECK(to_vector(y) == Values{1, 3, 1, 2});
  autograd::backward({y}, {full({4, 1}, 1.0)});
  CHECK(to_vector(table.grad()) == Values{0, 1, 1});
}

TEST_CASE("a 16-bit gather sums its gradient in f32") {
  const Tensor x = leaf(full({2, 2}, 1.0, DType::bf16));
  std::vector<int64_t> places(1024, 1);
  const Tensor y = ops::gather(x, 1, from_ints(places, {1, 1024}));
  autograd::backward({y}, {full({1, 1024}, 1.0, DType::bf16)});
  CHECK(to_vector(x.grad()) == Values{0, 1024, 0, 0});  // bf16 stops at 256
}

TEST_CASE("an index outside its range is named with its place and the range") {
  const Tensor table = zeros({30, 2}), x = zeros({2, 3});
  CHECK(tests::error_text([&] {
          ops::embedding(table, from_ints({1, 2, 3, 30}, {2, 2}));
        }) == "E-INDEX: embedding: index 30 at [1, 1] is outside [0, 30)");
  CHECK(tests::error_text([&] {
          ops::index_select(x, 1, from_ints({0, -1}, {2}));
        }) == "E-INDEX: index_select: index -1 at [1] is outside [0, 3)");
  CHECK(tests::error_text([&] {
          ops::gather(x, 0, from_ints({0, 1, 2}, {1, 3}));
        }) == "E-INDEX: gather: index 2 at [0, 2] is outside [0, 2)");
}

}  // namespace mixtape
