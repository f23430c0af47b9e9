// The tape: what a sweep promises beyond the gradients that the op table checks.
#include <doctest/doctest.h>

#include <map>

#include "autograd/backward.h"
#include "autograd/cast.h"
#include "autograd/checkpoint.h"
#include "core/allocator.h"
#include "core/factory.h"
#include "core/parameter.h"
#include "ops/ops.h"

using namespace mixtape;

namespace {

Tensor leaf(const std::vector<double>& values, const Shape& shape, DType dtype = DType::f32) {
  return from(values, shape, dtype).set_requires_grad();
}
RngCoordinates place(uint32_t draw) {
  RngCoordinates at;
  at.stream = rng_stream::test;
  at.draw = draw;
  return at;
}
bool throws_with(const std::function<void()>& f, const std::string& words) {
  try {
    f();
  } catch (const Error& error) {
    INFO(error.what());
    return std::string(error.what()).find(words) != std::string::npos;
  }
  return false;
}

}  // namespace

TEST_CASE("gradients add up over uses and over sweeps") {
  const Tensor x = leaf({3}, {1});
  autograd::backward(ops::mul(x, x));
  CHECK(x.grad().item() == 6);
  autograd::backward(ops::mul(x, x));
  CHECK(x.grad().item() == 12);
}

TEST_CASE("a chain of 200,000 ops is dropped without a sweep and without recursion") {
  const Tensor x = leaf({1}, {1});
  {
    Tensor y = x;
    for (int i = 0; i < 200000; ++i) y = ops::mul(y, x);
  }
  Tensor y = x;
  for (int i = 0; i < 20000; ++i) y = ops::mul(y, x);
  autograd::backward(y);
  CHECK(x.grad().item() == 20001);
}

TEST_CASE("a graph is swept once, unless it is retained") {
  const Tensor x = leaf({2}, {1});
  const Tensor y = ops::mul(ops::mul(x, x), x);
  autograd::backward(y, {.retain_graph = true});
  autograd::backward(y);
  CHECK(x.grad().item() == 24);
  CHECK(throws_with([&] { autograd::backward(y); }, "was freed by an earlier sweep"));
}

TEST_CASE("a loss without a graph is an error that says why") {
  const Tensor x = leaf({2}, {1});
  Tensor y;
  {
    const NoGradGuard guard;
    y = ops::mul(x, x);
  }
  CHECK(throws_with([&] { autograd::backward(y); }, "has no graph"));
  CHECK(throws_with([&] { autograd::backward(ops::mul(leaf({1, 2}, {2}), leaf({1, 2}, {2}))); }, "one-element loss"));
}

TEST_CASE("a saved tensor that was overwritten is refused, naming the op") {
  const Tensor x = leaf({2}, {1});
  const Tensor w = leaf({5}, {1});
  const Tensor y = ops::mul(x, w);
  assign(w, from({7}, {1}));
  CHECK(throws_with([&] { autograd::backward(y); }, "backward of mul"));
}

TEST_CASE("on_leaf_ready comes once for each leaf, with the complete gradient") {
  const Tensor a = leaf({2}, {1}), b = leaf({3}, {1});
  std::map<const void*, double> seen;
  int calls = 0;
  const Tensor y = ops::add(ops::mul(a, b), ops::mul(a, a));
  autograd::backward(y, {.on_leaf_ready = [&](const Tensor& leaf) {
                       ++calls;
                       seen[leaf.identity()] = leaf.grad().item();
                     }});
  CHECK(calls == 2);
  CHECK(seen[a.identity()] == 7);
  CHECK(seen[b.identity()] == 2);
}

TEST_CASE("the scale is the seed of the sweep, and leaves are stamped with its inverse") {
  const Tensor x = leaf({3}, {1});
  autograd::backward(autograd::ScaledLoss{ops::mul(x, x), 1024});
  CHECK(x.leaf().gradient.raw.item() == 6 * 1024);
  CHECK(x.leaf().gradient.multiplier == 1.0 / 1024);
  CHECK(x.grad().item() == 6);
  // Another scale later: the old gradient is rescaled exactly.
  autograd::backward(autograd::ScaledLoss{ops::mul(x, x), 65536});
  CHECK(x.leaf().gradient.raw.item() == 12 * 65536);
  CHECK(x.grad().item() == 12);
}

TEST_CASE("leaf gradients are f32 for 16-bit leaves, f64 for f64 ones") {
  for (const DType dtype : {DType::f16, DType::bf16, DType::f32, DType::f64}) {
    const Tensor x = leaf({3}, {1}, dtype);
    autograd::backward(ops::mul(x, x));
    CHECK(x.leaf().gradient.raw.dtype() == wide(dtype));
  }
}

TEST_CASE("gradients that meet take the widest arrival, whichever comes first") {
  // A weight's 16-bit twin gets an f32 gradient from a product (1) and a bf16 one from mul (2^-12): their sum must
  // reach the weight without being rounded to bf16 on the way.
  for (const bool product_first : {false, true}) {
    const Tensor w = leaf({1}, {1, 1});
    const Tensor low = autograd::cast(w, DType::bf16);
    const Tensor product = autograd::cast(ops::linear(from({1}, {1, 1}, DType::bf16), low), DType::f32);
    const Tensor scaled = autograd::cast(ops::mul(low, from({0x1p-12}, {1, 1}, DType::bf16)), DType::f32);
    autograd::backward(product_first ? ops::add(product, scaled) : ops::add(scaled, product));
    CHECK(w.grad().item() == 1 + 0x1p-12);
  }
}

TEST_CASE("a shared raw gradient is never written in place") {
  const Tensor a = leaf({1, 2}, {2}), b = leaf({3, 4}, {2});
  const Tensor y = ops::sum(ops::add(a, b));
  autograd::backward(y, {.retain_graph = true});
  autograd::backward(ops::sum(ops::add(a, a)));
  CHECK(to_vector(a.grad()) == std::vector<double>{3, 3});
  CHECK(to_vector(b.grad()) == std::vector<double>{1, 1});
}

TEST_CASE("gradient penalty: a gradient that is differentiated again") {
  const Tensor x = leaf({0.5, -1.0, 2.0}, {3}, DType::f64), w = leaf({1, 2, 3}, {3}, DType::f64);
  const Tensor y = ops::sum(ops::mul(ops::mul(x, x), w));  // dy/dx = 2·x·w
  const Tensors first = autograd::grad({y}, {x}, {.create_graph = true});
  autograd::backward(ops::sum(ops::mul(first[0], first[0])));  // Σ4·x²·w²
  const std::vector<double> dx = to_vector(x.grad()), dw = to_vector(w.grad());
  for (size_t i = 0; i < 3; ++i) {
    const double xi = to_vector(x)[i], wi = to_vector(w)[i];
    CHECK(dx[i] == doctest::Approx(8 * xi * wi * wi));
    CHECK(dw[i] == doctest::Approx(8 * xi * xi * wi));
  }
}

TEST_CASE("a row that cannot be differentiated twice says so") {
  const Tensor x = leaf({1, 2}, {1, 2}), g = leaf({1, 1}, {2}), b = leaf({0, 0}, {2});
  const Tensor y = ops::sum(ops::layer_norm(x, g, b));
  CHECK(throws_with([&] { autograd::grad({y}, {x}, {.create_graph = true}); }, "cannot be differentiated twice"));
}

TEST_CASE("grad leaves the leaves alone and reaches results of ops") {
  const Tensor x = leaf({3}, {1});
  const Tensor h = ops::mul(x, x);
  const Tensors found = autograd::grad({ops::mul(h, h)}, {h, x});
  CHECK(found[0].item() == 18);
  CHECK(found[1].item() == 108);
  CHECK(!x.grad());
}

TEST_CASE("a checkpointed part gives the same bits: values, masks, gradients") {
  const Tensor w = randn({16, 16}, place(0)).set_requires_grad(), b = randn({16}, place(1)).set_requires_grad();
  const Tensor x = randn({4, 16}, place(2)).set_requires_grad();
  const auto part = [&](const Tensors& in) -> Tensors {
    return {ops::dropout(ops::gelu(ops::linear(in[0], w, b)), 0.3)};
  };
  const auto run = [&](bool checkpointed, bool low) {
    const RngGuard rng(place(7));
    std::vector<std::vector<double>> results;
    Tensor y = ops::mul(x, x);
    if (low) y = autograd::cast(y, DType::bf16);
    for (int layer = 0; layer < 2; ++layer) {
      Context modes = context();
      if (low) {
        const auto rule = std::make_shared<CastRule>();
        rule->low = DType::bf16;
        modes.cast_rule = rule;
      }
      const RngCoordinates before = context().rng;
      modes.rng = before;
      Tensors out;
      {
        const ContextGuard guard(modes);
        out = checkpointed ? autograd::checkpoint(part, {y}) : part({y});
        modes.rng = context().rng;
      }
      context().rng = modes.rng;
      y = ops::add(out[0], y);
    }
    results.push_back(to_vector(y));
    autograd::backward({y}, {full(y.shape(), 1.0, y.dtype())}, {.scale = 8});
    for (const Tensor& t : {w, b, x}) {
      results.push_back(to_vector(t.grad()));
      t.leaf().gradient = {};
    }
    return results;
  };
  for (const bool low : {false, true}) CHECK(run(false, low) == run(true, low));
}

TEST_CASE("a checkpoint keeps only its inputs until the sweep") {
  const Tensor w = randn({64, 64}, place(3)).set_requires_grad();
  const Tensor x = randn({256, 64}, place(4)).set_requires_grad();
  const auto deep = [&](const Tensors& in) -> Tensors {
    Tensor y = in[0];
    for (int i = 0; i < 8; ++i) y = ops::gelu(ops::linear(y, w));
    return {y};
  };
  const auto held = [&](bool checkpointed) {
    const int64_t before = cpu_allocator().stats().live_bytes;
    const Tensors y = checkpointed ? autograd::checkpoint(deep, {x}) : deep({x});
    return cpu_allocator().stats().live_bytes - before;
  };
  CHECK(held(true) == 256 * 64 * 4);
  CHECK(held(false) >= 16 * 256 * 64 * 4);
}

TEST_CASE("shadow: a parameter's cast aliases one twin, and follows the parameter") {
  const Tensor w = leaf({1.0, 2.0}, {2});
  const Tensor a = autograd::cast(w, DType::bf16), b = autograd::cast(w, DType::bf16);
  CHECK(a.storage().same_as(b.storage()));
  assign(w, from({3.0, 4.0}, {2}));
  const Tensor c = autograd::cast(w, DType::bf16);
  CHECK(to_vector(c) == std::vector<double>{3, 4});
  CHECK(to_vector(a) == std::vector<double>{1, 2});  // still held: the refresh made a new twin
  CHECK(!c.storage().same_as(a.storage()));
}

TEST_CASE("a cast made without recording does not cut the graph of a later one") {
  const Tensor w = leaf({1.0}, {1});
  {
    const NoGradGuard guard;
    autograd::cast(w, DType::bf16);
  }
  autograd::backward(autograd::cast(autograd::cast(w, DType::bf16), DType::f32));
  CHECK(w.grad().item() == 1);
}

TEST_CASE("an error names the op, both dtypes, their origin and the place in the model") {
  const Scope scope("encoder");
  const Tensor a = leaf({1, 2}, {1, 2}), w = from({1, 2}, {1, 2}, DType::f16);
  try {
    ops::linear(ops::mul(a, a), w);
    FAIL("mixed dtypes passed");
  } catch (const Error& error) {
    const std::string what = error.what();
    for (const char* words :
         {"linear", "weight", "f16", "f32", "a constant", "the result of mul (in encoder)", "in encoder"}) {
      INFO(what << " / " << words);
      CHECK(what.find(words) != std::string::npos);
    }
  }
}

TEST_CASE("from the second run on, a fixed shape allocates nothing new") {
  const Tensor w = randn({32, 32}, place(5)).set_requires_grad();
  const Tensor x = randn({8, 32}, place(6));
  std::vector<int64_t> system;
  for (int step = 0; step < 5; ++step) {
    autograd::backward(ops::sum(ops::gelu(ops::linear(x, w))));
    w.leaf().gradient = {};
    system.push_back(cpu_allocator().stats().system_allocations);
  }
  CHECK(system[0] > 0);
  CHECK(system == std::vector<int64_t>(5, system[0]));
}
