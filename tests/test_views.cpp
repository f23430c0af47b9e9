// Views: whose bytes they read, what versions protect, and what their gradients cost.
#include <doctest/doctest.h>

#include <algorithm>
#include <numeric>
#include <vector>

#include "autograd/backward.h"
#include "autograd/cast.h"
#include "core/allocator.h"
#include "core/factory.h"
#include "core/parameter.h"
#include "ops/ops.h"
#include "tests/shared.h"

namespace mixtape {
namespace {

using Values = std::vector<double>;

Tensor counted(const Shape& shape, DType dtype = DType::f32) {
  Values values(static_cast<size_t>(shape.numel()));
  std::iota(values.begin(), values.end(), 0.0);
  return from(values, shape, dtype);
}
Tensor leaf(const Shape& shape, DType dtype = DType::f32) {
  Tensor x = counted(shape, dtype);
  x.set_requires_grad();
  return x;
}
bool shares(const Tensor& a, const Tensor& b) { return a.storage().same_as(b.storage()); }

// Whether strides exist that read `x` row-major as `shape`: the offsets must be linear in the coordinates.
bool view_exists(const Tensor& x, const Shape& shape) {
  std::vector<int64_t> offsets;  // of the elements of x in row-major order
  for (int64_t i = 0; i < x.numel(); ++i) {
    int64_t rest = i, offset = 0;
    for (int axis = x.rank() - 1; axis >= 0; --axis) {
      offset += rest % x.shape()[axis] * x.strides()[axis];
      rest /= x.shape()[axis];
    }
    offsets.push_back(offset);
  }
  const Strides steps = contiguous_strides(shape);
  for (int64_t i = 0; i < x.numel(); ++i) {
    int64_t rest = i, linear = 0;
    for (int axis = shape.rank() - 1; axis >= 0; --axis) {
      const int64_t at = rest % shape[axis];
      if (at > 0) linear += at * offsets[static_cast<size_t>(steps[axis])];
      rest /= shape[axis];
    }
    if (linear != offsets[static_cast<size_t>(i)]) return false;
  }
  return true;
}

std::vector<Shape> factorizations(int64_t n, int rank) {
  if (rank == 1) return {Shape{n}};
  std::vector<Shape> all;
  for (int64_t first = 1; first <= n; ++first) {
    if (n % first != 0) continue;
    for (Shape rest : factorizations(n / first, rank - 1)) {
      rest.insert(0, first);
      all.push_back(rest);
    }
  }
  return all;
}

}  // namespace

TEST_CASE("views share the bytes of their input") {
  const Tensor x = counted({4, 6});
  for (const Tensor& view : {ops::reshape(x, {2, 12}), ops::transpose(x, 0, 1), ops::permute(x, {1, 0}),
                             ops::slice(x, 1, 1, 5, 2), ops::expand(x, {3, 4, 6}), ops::split(x, {1, 3}, 0)[1],
                             ops::squeeze(ops::unsqueeze(x, 0), 0), ops::chunk(x, 2, -1)[1]}) {
    CHECK(shares(view, x));
  }
  const Tensor column = ops::slice(ops::transpose(x, 0, 1), 0, 2, 3);
  CHECK(to_vector(column) == Values{2, 8, 14, 20});
  assign(ops::slice(x, 0, 1, 2), full({1, 6}, -1));
  CHECK(to_vector(column) == Values{2, -1, 14, 20});
  CHECK_FALSE(shares(ops::concat({x}, 0), x));
  CHECK_FALSE(shares(ops::stack({x}, 0), x));
}

TEST_CASE("writing the base moves the version of every view") {
  const Tensor x = counted({4, 6});
  const Tensor view = ops::transpose(ops::slice(x, 0, 1, 3), 0, 1);
  const uint32_t before = view.storage().version();
  assign(ops::reshape(x, {24}), zeros({24}));
  CHECK(view.storage().version() == before + 1);

  Tensor w = leaf({6, 2});
  const Tensor rows = ops::slice(x, 0, 0, 2);
  const Tensor y = ops::matmul(rows, w);
  assign(x, zeros({4, 6}));
  const std::string what = tests::error_text([&] { autograd::backward({y}, {full({2, 2}, 1.0)}); });
  CHECK(tests::contains(what, "E-TAPE: backward of matmul"));
  CHECK(tests::contains(what, "input 0 was overwritten"));
}

TEST_CASE("reshape is a view exactly where strides allow one") {
  int views = 0, copies = 0;
  const Tensor base = counted({4, 6, 2});
  const Tensor sources[] = {base,
                            ops::transpose(base, 0, 1),
                            ops::transpose(base, 1, 2),
                            ops::permute(base, {2, 0, 1}),
                            ops::slice(base, 1, 0, 3),
                            ops::slice(base, 0, 0, ops::to_end, 2),
                            ops::slice(base, 2, 1, 2),
                            ops::expand(ops::slice(base, 1, 2, 3), {4, 3, 2}),
                            ops::expand(ops::slice(base, 0, 1, 2), {4, 6, 2})};
  for (const Tensor& x : sources) {
    const Values wanted = to_vector(x);
    for (int rank = 1; rank <= 4; ++rank) {
      for (const Shape& shape : factorizations(x.numel(), rank)) {
        const Tensor y = ops::reshape(x, shape);
        CHECK(y.shape() == shape);
        CHECK(to_vector(y) == wanted);
        CHECK(shares(y, x) == view_exists(x, shape));
        ++(shares(y, x) ? views : copies);
      }
    }
  }
  CHECK(views > 100);
  CHECK(copies > 100);
}

TEST_CASE("gradients go back through copies and views alike") {
  Tensor x = leaf({2, 3, 4});
  const Tensor y = ops::reshape(ops::transpose(x, 0, 1), {6, 4});
  CHECK_FALSE(shares(y, x));
  autograd::backward({y}, {counted({6, 4})});
  CHECK(to_vector(x.grad()) == to_vector(ops::transpose(counted({3, 2, 4}), 0, 1)));
}

TEST_CASE("a packed projection gets one gradient, not one full-size zero tensor a piece") {
  constexpr int64_t bytes = 4 * 64 * 768 * 4;
  const Tensor seed = full({4, 64, 256}, 1.0);
  const auto cost = [&](const std::vector<int>& used) {
    Tensor packed = zeros({4, 64, 768});
    packed.set_requires_grad();
    const Tensors pieces = ops::chunk(packed, 3, -1);
    Tensors roots, seeds;
    for (int i : used) {
      roots.push_back(pieces[i]);
      seeds.push_back(seed);
    }
    cpu_allocator().reset_peak();
    const int64_t before = cpu_allocator().stats().live_bytes;
    autograd::backward(roots, seeds);
    const int64_t peak = cpu_allocator().stats().peak_bytes - before;
    for (int i = 0; i < 3; ++i) {
      const bool has = std::count(used.begin(), used.end(), i) > 0;
      const Tensor part = ops::chunk(packed.leaf().gradient.raw, 3, -1)[i];
      CHECK(to_vector(part) == Values(static_cast<size_t>(part.numel()), has ? 1.0 : 0.0));
    }
    return peak;
  };
  for (const std::vector<int>& used : std::vector<std::vector<int>>{{0, 1, 2}, {1}, {2, 0}}) {
    const int64_t peak = cost(used);
    CHECK(peak >= bytes);
    CHECK(peak < bytes + 4096);
  }
}

TEST_CASE("gradients that lie side by side already are the whole one, in their own order only") {
  const Tensor weights = counted({2, 6});
  for (const bool turned : {false, true}) {
    const Tensor x = leaf({2, 6});
    const Tensors halves = ops::chunk(x, 2, 1);
    const Tensor whole = ops::concat({halves[turned], halves[!turned]}, 1);
    autograd::backward({whole}, {weights});
    const Tensors parts = ops::chunk(weights, 2, 1);
    const Tensor expected = turned ? ops::concat({parts[1], parts[0]}, 1) : weights;
    CHECK(to_vector(x.grad()) == to_vector(expected));
    CHECK(shares(x.leaf().gradient.raw, weights) == !turned);  // not copied
  }
  const Tensor x = leaf({2, 6});
  const Tensors halves = ops::chunk(x, 2, 1);
  autograd::backward({ops::concat({halves[0], halves[0]}, 1)}, {weights});
  CHECK(to_vector(x.grad()) == Values{3, 5, 7, 0, 0, 0, 15, 17, 19, 0, 0, 0});
}

TEST_CASE("pieces whose gradients differ in dtype meet in the wider one") {
  Tensor x = leaf({4}, DType::bf16);
  const Tensors halves = ops::chunk(x, 2, 0);
  const Tensor fine = autograd::cast(halves[0], DType::f32);  // its gradient is f32 before cast narrows it
  autograd::backward({fine, halves[1]}, {full({2}, 1.0 + 0x1p-12), full({2}, 3.0, DType::bf16)});
  CHECK(to_vector(x.grad()) == Values{1, 1, 3, 3});

  Tensor w = leaf({6});  // an f32 weight behind a 16-bit cast and a view keeps its unrounded gradient
  const Tensor low = ops::reshape(autograd::cast(w, DType::bf16), {2, 3});
  const Tensor y = ops::matmul(full({1, 2}, 1.0078125, DType::bf16), low);
  autograd::backward({y}, {full({1, 3}, 1.0078125, DType::bf16)});
  CHECK(to_vector(w.grad()) == Values(6, 1.0078125 * 1.0078125));  // bf16 holds 1.015625
}

TEST_CASE("slices take negative bounds and steps; absent places get gradient 0") {
  Tensor x = leaf({7});
  CHECK(to_vector(ops::slice(x, 0, -3, ops::to_end)) == Values{4, 5, 6});
  CHECK(to_vector(ops::slice(x, 0, 1, -1, 2)) == Values{1, 3, 5});
  CHECK(to_vector(ops::slice(x, 0, 7)) == Values{});
  autograd::backward({ops::slice(x, 0, 1, -1, 2)}, {full({3}, 2.0)});
  CHECK(to_vector(x.grad()) == Values{0, 2, 0, 2, 0, 2, 0});
}

TEST_CASE("views of views of views: the gradient of an overlap is summed") {
  Tensor x = leaf({4});
  const Tensor twice = ops::concat({ops::slice(x, 0, 0, 3), ops::slice(x, 0, 1, 4)}, 0);
  autograd::backward({ops::expand(twice, {5, 6})}, {full({5, 6}, 1.0)});
  CHECK(to_vector(x.grad()) == Values{5, 10, 10, 5});
}

TEST_CASE("helpers name what is wrong") {
  const Tensor x = counted({2, 3});
  CHECK(tests::error_text([&] { ops::squeeze(x, 1); }) == "E-SHAPE: squeeze: axis 1 of [2, 3] has size 3, expected 1");
  CHECK(tests::error_text([&] { ops::unsqueeze(x, 4); }) == "E-AXIS: unsqueeze: axis 4 is outside a tensor of rank 3");
  CHECK(tests::error_text([&] { ops::chunk(x, 2, 1); }) ==
        "E-SHAPE: chunk: axis 1 of [2, 3] does not divide into 2 equal pieces");
  CHECK(ops::unsqueeze(x, -1).shape() == Shape{2, 3, 1});
  CHECK(ops::unsqueeze(x, 1).shape() == Shape{2, 1, 3});
  CHECK(ops::squeeze(ops::unsqueeze(x, 1), -2).shape() == Shape{2, 3});
}

}  // namespace mixtape
