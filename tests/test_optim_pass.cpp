// The one pass over a parameter where it may leave things out: blocks that rest, and gradients of some rows.
#include <doctest/doctest.h>

#include <cmath>

#include "autograd/cast.h"
#include "optim/adamw.h"
#include "optim/sgd.h"
#include "tests/optimizers.h"

namespace mixtape {
namespace {

using optim::AdamW;
using optim::SGD;
using optim::StepResult;
using tests::parameter;
using tests::set_gradient;
using tests::state_of;
using tests::step;
using Values = std::vector<double>;

// Elements of `a` that are not, to the bit, where `b` has them when element i lies at i·deal.
size_t differences(const Values& a, const Values& b, size_t deal) {
  size_t count = 0;
  for (size_t i = 0; i < a.size(); ++i) {
    const double other = b[i * deal % a.size()];
    count += a[i] != other || std::signbit(a[i]) != std::signbit(other);
  }
  return count;
}

TEST_CASE("where gradient and moments are zero AdamW only decays, and gives the bits of the whole formula") {
  // The same elements in their order, where whole blocks rest, and dealt out so that something moves in every block.
  constexpr size_t count = 4096, deal = 521;
  for (const DType low : {DType::bf16, DType::f16}) {
    Values in_order, dealt(count);
    for (size_t i = 0; i < count; ++i) in_order.push_back(i % 7 == 0 ? -0.0 : std::sin(static_cast<double>(i)));
    for (size_t i = 0; i < count; ++i) dealt[i * deal % count] = in_order[i];
    const Tensor p = parameter(in_order), q = parameter(dealt);
    auto a = std::make_unique<AdamW>(NamedTensors{{"weight", p}}, optim::AdamWOptions{.lr = 0.1, .weight_decay = 0.1});
    AdamW b({{"weight", q}}, {.lr = 0.1, .weight_decay = 0.1});
    for (int t = 0; t < 6; ++t) {
      Values g(count), h(count);
      for (size_t i = 0; i < count; ++i) {
        const size_t block = i / 512;
        const bool seen = block == 1 || (block == 4 && t >= 2) || (block == 6 && t == 1);
        g[i] = seen ? std::cos(static_cast<double>(i)) : i % 3 == 0 ? -0.0 : 0.0;
        h[i * deal % count] = g[i];
      }
      (void)autograd::cast(p, low);
      set_gradient(p, g), set_gradient(q, h);
      if (t == 4) {  // what rests is found again in a state that is loaded
        const NamedTensors state = a->state();
        a = std::make_unique<AdamW>(NamedTensors{{"weight", p}}, optim::AdamWOptions{.lr = 0.1, .weight_decay = 0.1});
        a->load_state(state);
      }
      CHECK(step(*a) == StepResult::applied);
      CHECK(step(b) == StepResult::applied);
      CHECK(a->resting() == (t < 1 ? 7 : t < 2 ? 6 : 5) * 512);
      CHECK(b.resting() == 0);
      CHECK(differences(to_vector(p), to_vector(q), deal) == 0);
      CHECK(to_vector(autograd::cast(p, low)) == to_vector(copy_of(p, low)));
    }
    for (const std::string name : {"weight.exp_avg", "weight.exp_avg_sq"}) {
      const Values mine = to_vector(state_of(*a, name));
      CHECK(differences(mine, to_vector(state_of(b, name)), deal) == 0);
      CHECK(mine[600] != 0);
      CHECK(mine[0] == 0);
    }
  }
}

TEST_CASE("a gradient of some rows gives the bits of the whole one") {
  constexpr int64_t rows = 29, width = 130;  // blocks of 512 begin and end inside rows
  const auto matrix = [&](uint32_t draw, int64_t count) {
    return randn({count, width}, {.stream = rng_stream::test, .draw = draw});
  };
  for (const bool adam : {true, false}) {
    const Tensor some = copy_of(matrix(0, rows)).set_requires_grad(), all = copy_of(some).set_requires_grad();
    const auto optimizer_of = [&](const Tensor& p) -> std::unique_ptr<optim::Optimizer> {
      if (adam) return std::make_unique<AdamW>(NamedTensors{{"weight", p}}, optim::AdamWOptions{.lr = 0.1});
      return std::make_unique<SGD>(NamedTensors{{"weight", p}}, optim::SGDOptions{.lr = 0.1, .momentum = 0.9});
    };
    const auto a = optimizer_of(some), b = optimizer_of(all);
    uint32_t draw = 1;
    for (const std::vector<int64_t>& touched : std::vector<std::vector<int64_t>>{{0, 3, 4, 28}, {}, {3, 17}}) {
      const int64_t count = std::ssize(touched);
      const Gradient gradient{matrix(draw++, count), 0.25, from_ints(touched, {count})};
      some.leaf().gradient = gradient;
      all.leaf().gradient = {all_rows(gradient, all.shape()), 0.25};
      CHECK(to_vector(some.grad()) == to_vector(all.grad()));
      CHECK(a->survey().norm == doctest::Approx(b->survey().norm).epsilon(1e-12));
      CHECK(step(*a) == StepResult::applied);
      CHECK(step(*b) == StepResult::applied);
      CHECK(to_vector(some) == to_vector(all));
      for (const NamedTensor& entry : a->state()) {
        CHECK(to_vector(entry.tensor) == to_vector(state_of(*b, entry.name)));
      }
    }
  }
}

}  // namespace
}  // namespace mixtape
