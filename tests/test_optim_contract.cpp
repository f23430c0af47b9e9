#include <doctest/doctest.h>

#include <cmath>

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
using tests::step;
using Values = std::vector<double>;

// What every optimizer must do, whatever its formula: one contract for all of them and for all parameter dtypes.
template <class F>
void for_all_optimizers(const F& f) {
  for (const DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16}) {
    const Tensor a = parameter({1, 2}, dtype), b = parameter({3}, dtype);
    const NamedTensors both = {{"a", a}, {"b", b}};
    AdamW adamw(both, {.lr = 0.1});
    SGD plain(both, {.lr = 0.1}), momentum(both, {.lr = 0.1, .momentum = 0.9});
    for (optim::Optimizer* optimizer : {static_cast<optim::Optimizer*>(&adamw), static_cast<optim::Optimizer*>(&plain),
                                        static_cast<optim::Optimizer*>(&momentum)}) {
      CAPTURE(name_of(dtype));
      set_gradient(a, {1, -1}), set_gradient(b, {0.5});
      CHECK(step(*optimizer) == StepResult::applied);
      f(*optimizer, a, b);
    }
  }
}

TEST_CASE("contract: a step that is not finite leaves every bit where it was, and clears the gradients") {
  const double inf = INFINITY, nan = NAN;
  for_all_optimizers([&](optim::Optimizer& optimizer, const Tensor& a, const Tensor& b) {
    const Values before_a = to_vector(a), before_b = to_vector(b);
    std::vector<Values> states;
    for (const NamedTensor& entry : optimizer.state()) states.push_back(to_vector(entry.tensor));
    const uint32_t version = a.storage().version();
    for (const double bad : {inf, -inf, nan}) {
      set_gradient(a, {1, 1}), set_gradient(b, {bad});
      CHECK(optimizer.survey().nonfinite == std::vector<std::string>{"b"});
      CHECK(step(optimizer) == StepResult::skipped_overflow);
      CHECK(!a.leaf().gradient);
      CHECK(!b.leaf().gradient);
    }
    CHECK(to_vector(a) == before_a);
    CHECK(to_vector(b) == before_b);
    CHECK(a.storage().version() == version);
    const NamedTensors after = optimizer.state();
    for (size_t i = 0; i < after.size(); ++i) CHECK(to_vector(after[i].tensor) == states[i]);
  });
}

TEST_CASE("contract: an overflow that only the multiplier makes is seen") {
  for_all_optimizers([](optim::Optimizer& optimizer, const Tensor& a, const Tensor&) {
    const Values before = to_vector(a);
    const bool wide = a.dtype() == DType::f64;
    set_gradient(a, {1, wide ? 1e300 : 1e38}, wide ? 1e30 : 1e3);
    CHECK(step(optimizer) == StepResult::skipped_overflow);
    set_gradient(a, {0, 0}, std::ldexp(1.0, wide ? 1024 : 140));  // 1/scale is inf in the gradient's type
    CHECK(step(optimizer) == StepResult::skipped_overflow);
    CHECK(to_vector(a) == before);
  });
}

TEST_CASE("contract: an applied step clears the gradients and moves the version") {
  for_all_optimizers([](optim::Optimizer& optimizer, const Tensor& a, const Tensor& b) {
    const uint32_t version = a.storage().version();
    set_gradient(a, {1, 1});
    CHECK(step(optimizer) == StepResult::applied);
    CHECK(!a.leaf().gradient);
    CHECK(!b.leaf().gradient);
    CHECK(a.storage().version() == version + 1);
  });
}

TEST_CASE("contract: no gradients is an outcome of its own") {
  for_all_optimizers([](optim::Optimizer& optimizer, const Tensor& a, const Tensor&) {
    const Values before = to_vector(a);
    CHECK(step(optimizer) == StepResult::no_gradients);
    CHECK(to_vector(a) == before);
  });
  AdamW nothing(NamedTensors{});
  CHECK(step(nothing) == StepResult::no_gradients);
  Tensor frozen = from({1}, {1});
  SGD over_frozen({{"frozen", frozen}});
  CHECK(step(over_frozen) == StepResult::no_gradients);
}

TEST_CASE("contract: a state put back into a fresh optimizer continues with the same bits") {
  for_all_optimizers([](optim::Optimizer& optimizer, const Tensor& a, const Tensor& b) {
    NamedTensors saved;
    for (const NamedTensor& entry : optimizer.state()) saved.push_back({entry.name, copy_of(entry.tensor)});
    const Tensor start_a = copy_of(a), start_b = copy_of(b);
    const auto go_on = [&] {
      for (int t = 0; t < 3; ++t) {
        set_gradient(a, {0.3, 0.1 * t}), set_gradient(b, {-1});
        CHECK(step(optimizer) == StepResult::applied);
      }
      return std::pair(to_vector(a), to_vector(b));
    };
    const auto unbroken = go_on();
    assign(a, start_a), assign(b, start_b);
    optimizer.load_state(saved);
    CHECK(go_on() == unbroken);
  });
}

}  // namespace
}  // namespace mixtape
