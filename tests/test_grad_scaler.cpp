#include <doctest/doctest.h>

#include <cmath>

#include "optim/adamw.h"
#include "optim/schedule.h"
#include "optim/sgd.h"
#include "tests/scaler.h"
#include "tests/shared.h"

namespace mixtape {
namespace {

using amp::GradScaler;
using amp::ScalerOptions;
using autograd::backward;
using optim::StepResult;
using tests::error_of;
using tests::error_text;
using tests::leaf;
using tests::loss_of;
using tests::one_step;
using tests::static_scale;
using tests::stop_after;
using Values = std::vector<double>;

TEST_CASE("a gradient of 1e-8 is 0 in half, and arrives with a scale of 65536") {
  const Tensor plain = leaf({1}), scaled = leaf({1});
  backward(loss_of(plain, {1}, DType::f16), {.scale = 1e-8});
  CHECK(to_vector(plain.leaf().gradient.raw)[0] == 0);
  GradScaler scaler;
  // 1e-8 = factor · 1: the factor comes in behind the half, as a mean over many items would.
  backward(scaler.scale(ops::mul(loss_of(scaled, {1}, DType::f16), scalar(1e-8))));
  CHECK(to_vector(scaled.grad())[0] == doctest::Approx(1e-8).epsilon(1e-3));
}

TEST_CASE("the loss that comes back is unscaled: nobody can log 65536 times it") {
  const Tensor w = leaf({0.69});
  GradScaler scaler;
  const autograd::ScaledLoss scaled = scaler.scale(loss_of(w, {1}));
  CHECK(scaled.loss.item() == doctest::Approx(0.69));
  CHECK(scaled.scale == 65536);
}

TEST_CASE("an overflow skips, halves the scale, holds schedule and moments; the next step applies") {
  const Tensor w = leaf({1, 2});
  optim::AdamW optimizer({{"w", w}}, {.lr = 9, .weight_decay = 0});
  optim::Schedule schedule(optimizer, {.base_lr = 0.1, .total = 10, .warmup = 5});
  GradScaler scaler;
  const auto train = [&](const Values& x) {
    backward(scaler.scale(loss_of(w, x, DType::f16)));
    const optim::Outcome outcome = scaler.step(optimizer);
    schedule.advance(outcome);
    scaler.update();
    return outcome.get();
  };
  CHECK(train({2, 0.5}) == StepResult::skipped_overflow);  // 65536·2 is inf in half
  CHECK(to_vector(w) == Values{1, 2});
  CHECK(optimizer.state().empty());
  CHECK(optimizer.lr() == doctest::Approx(0.02));  // still that of the first update
  CHECK(scaler.nonfinite() == std::vector<std::string>{"w"});
  CHECK(scaler.scale() == 32768);
  CHECK(train({2, 0.5}) == StepResult::skipped_overflow);
  CHECK(scaler.scale() == 16384);
  CHECK(train({2, 0.5}) == StepResult::applied);
  CHECK(scaler.scale() == 16384);
  CHECK(to_vector(w)[0] == doctest::Approx(0.98));  // a first step, at the first rate
  CHECK(schedule.updates() == 1);
  CHECK(scaler.state().rounds == 3);
  CHECK(scaler.state().skipped_overflow == 2);
  CHECK(scaler.state().consecutive_skips == 0);
}

TEST_CASE("the scale grows after its interval of clean updates") {
  ScalerOptions options;
  options.scale.interval = 3;
  GradScaler scaler(options);
  const Tensor w = leaf({1});
  optim::SGD optimizer({{"w", w}});
  for (const double expected : {65536, 65536, 131072, 131072}) {
    CHECK(one_step(scaler, optimizer, loss_of(w, {1})) == StepResult::applied);
    CHECK(scaler.scale() == expected);
  }
}

TEST_CASE("a loss that is not finite is another event: the scale stays, the step is a skip") {
  const Tensor w = leaf({1});
  optim::SGD optimizer({{"w", w}});
  GradScaler scaler;
  CHECK(one_step(scaler, optimizer, loss_of(w, {1})) == StepResult::applied);
  const Values before = to_vector(w);
  for (const double bad : {static_cast<double>(NAN), static_cast<double>(INFINITY)}) {
    CHECK(one_step(scaler, optimizer, loss_of(w, {bad})) == StepResult::skipped_nonfinite_loss);
    CHECK(scaler.scale() == 65536);
    CHECK(scaler.state().scale.clean == 1);
    CHECK(scaler.nonfinite() == std::vector<std::string>{"loss"});
  }
  CHECK(to_vector(w) == before);
  CHECK(scaler.state().skipped_nonfinite == 2);
  SUBCASE("also when its gradients are finite") {
    const Tensor infinite = ops::add(loss_of(w, {1}), scalar(INFINITY));
    CHECK(one_step(scaler, optimizer, infinite) == StepResult::skipped_nonfinite_loss);
    CHECK(to_vector(w) == before);
  }
  SUBCASE("also when the sweep was left out") {
    CHECK(scaler.scale(loss_of(w, {NAN})).scale == 65536);
    scaler.update();
    CHECK(scaler.state().consecutive_skips == 3);
  }
  CHECK(one_step(scaler, optimizer, loss_of(w, {1})) == StepResult::applied);
  CHECK(scaler.state().consecutive_skips == 0);
}

TEST_CASE("skips in a row end the run, in every dtype, naming what was not finite first") {
  for (const bool low : {true, false}) {
    ScalerOptions options = low ? stop_after(3) : amp::unscaled();
    options.max_consecutive_skips = 3;
    GradScaler scaler(options);
    const Tensor good = leaf({1}), bad = leaf({1});
    optim::SGD optimizer({{"good", good}, {"bad", bad}});
    const auto round = [&] {
      backward(scaler.scale(loss_of(good, {1})));
      bad.leaf().gradient = {from({NAN}, {1}), 1};
      CHECK(scaler.step(optimizer).get() == StepResult::skipped_overflow);
      scaler.update();
    };
    round(), round();
    const std::optional<Error> error = error_of(round);
    REQUIRE(error);
    CHECK(error->exit_code() == 20);
    CHECK(error->code() == "E-DIVERGED");
    CHECK(std::string(error->what()) ==
          message("training diverged: 3 steps in a row were not finite (loss scale ", low ? 8192 : 1,
                  "); the first gradient of the sweep that is not finite is that of 'bad', one of 1"));
    CHECK(to_vector(good) == Values{1});
  }
}

TEST_CASE("a NaN in the forward, and one in a weight, are named as what they are") {
  GradScaler scaler(stop_after(1));
  const Tensor w = leaf({1});
  optim::SGD optimizer({{"w", w}});
  CHECK(error_text([&] { one_step(scaler, optimizer, loss_of(w, {NAN})); }).find("the loss itself is inf or NaN") !=
        std::string::npos);
  assign(w, from({NAN}, {1}));
  CHECK(error_text([&] {
          one_step(scaler, optimizer, loss_of(w, {1}));
        }).find("parameter 'w' itself holds inf or NaN") != std::string::npos);
}

TEST_CASE("reaching the floor alone does not stop a run") {
  GradScaler scaler(stop_after(50));
  const Tensor w = leaf({1});
  optim::SGD optimizer({{"w", w}});
  for (int i = 0; i < 40; ++i) {
    w.leaf().gradient = {from({INFINITY}, {1}), 1};
    CHECK(scaler.step(optimizer).get() == StepResult::skipped_overflow);
    scaler.update();
  }
  CHECK(scaler.scale() == 1);
  CHECK(one_step(scaler, optimizer, loss_of(w, {1})) == StepResult::applied);
}

TEST_CASE("bf16 and f32 look at every gradient too, with scale 1") {
  GradScaler scaler(amp::unscaled());
  const Tensor w = leaf({1});
  optim::AdamW optimizer({{"w", w}});
  CHECK(one_step(scaler, optimizer, loss_of(w, {0.5}, DType::bf16)) == StepResult::applied);
  const Values before = to_vector(w);
  w.leaf().gradient = {from({NAN}, {1}), 1};
  CHECK(scaler.step(optimizer).get() == StepResult::skipped_overflow);
  scaler.update();
  CHECK(scaler.scale() == 1);
  CHECK(to_vector(w) == before);
}

TEST_CASE("no gradients: nothing moves, scale and counters stay") {
  GradScaler scaler;
  const Tensor w = leaf({1});
  optim::SGD optimizer({{"w", w}});
  CHECK(scaler.step(optimizer).get() == StepResult::no_gradients);
  scaler.update();
  CHECK(scaler.state().scale == amp::first_state({}));
  CHECK(scaler.state().consecutive_skips == 0);
}

TEST_CASE("misuse is reported and changes nothing") {
  const Tensor w = leaf({0});
  optim::SGD optimizer({{"w", w}}, {.lr = 1});
  GradScaler scaler;
  CHECK(error_text([&] { scaler.update(); }).find("E-SCALER: scaler: update without a step") == 0);
  backward(scaler.scale(loss_of(w, {1})));
  scaler.unscale(optimizer);
  const Gradient before = w.leaf().gradient;
  CHECK(error_text([&] { scaler.unscale(optimizer); }).find("E-SCALER: scaler: unscale twice") == 0);
  CHECK(w.leaf().gradient.multiplier == before.multiplier);
  CHECK(error_text([&] { scaler.load_state({}); }).find("E-SCALER: scaler: load_state within a round") == 0);
  CHECK(scaler.step(optimizer).applied());
  CHECK(error_text([&] { (void)scaler.step(optimizer); }).find("E-SCALER: scaler: step twice") == 0);
  CHECK(error_text([&] { scaler.unscale(optimizer); }).find("E-SCALER: scaler: unscale after step") == 0);
  CHECK(to_vector(w)[0] == -1);
  scaler.update();
  CHECK(error_text([&] { scaler.update(); }).find("E-SCALER") == 0);
  CHECK(scaler.state().rounds == 1);
  CHECK(scaler.scale() == 65536);
}

TEST_CASE("a loss that cannot hold the scale, or is no scalar, is refused") {
  GradScaler scaler;
  CHECK(error_text([&] {
          scaler.scale(scalar(1, DType::f16));
        }).find("the loss is f16, which cannot hold the scale 65536") != std::string::npos);
  CHECK(error_text([&] { scaler.scale(zeros({2})); }) ==
        "E-SCALER-LOSS: scaler: expected a loss of one float element, got f32[2]");
  CHECK(GradScaler(static_scale(1024)).scale(scalar(1, DType::f16)).scale == 1024);
}

TEST_CASE("a state that is saved and put back continues exactly") {
  ScalerOptions options;
  options.scale.interval = 4;
  options.scale.hysteresis = 2;
  const Tensor w = leaf({0});
  optim::SGD optimizer({{"w", w}});
  const auto go = [&](GradScaler& scaler, int from_round, int to_round) {
    for (int i = from_round; i < to_round; ++i) {
      w.leaf().gradient = {from({i % 7 == 3 ? INFINITY : 1.0}, {1}), 1};
      (void)scaler.step(optimizer);
      scaler.update();
    }
  };
  GradScaler unbroken(options);
  go(unbroken, 0, 30);
  for (int cut = 0; cut <= 30; ++cut) {
    GradScaler before(options), after(options);
    go(before, 0, cut);
    after.load_state(before.state());
    go(after, cut, 30);
    CHECK(after.state() == unbroken.state());
  }
  amp::ScalerState broken;
  broken.scale.scale = NAN;
  CHECK(error_text([&] { unbroken.load_state(broken); }).find("E-SCALER-STATE") == 0);
}

}  // namespace
}  // namespace mixtape
