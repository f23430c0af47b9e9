#include <doctest/doctest.h>

#include <cmath>

#include "optim/adamw.h"
#include "optim/clip.h"
#include "optim/sgd.h"
#include "tests/scaler.h"

namespace mixtape {
namespace {

using amp::GradScaler;
using amp::ScalerOptions;
using autograd::backward;
using optim::StepResult;
using tests::leaf;
using tests::loss_of;
using tests::one_step;
using tests::static_scale;
using Values = std::vector<double>;

TEST_CASE("recipe: clip between unscale and step, and in any other order") {
  Values results;
  for (int order = 0; order < 3; ++order) {
    GradScaler scaler;
    const Tensor w = leaf({0, 0});
    optim::SGD optimizer({{"w", w}}, {.lr = 1});
    backward(scaler.scale(loss_of(w, {3, 4})));
    if (order == 0) scaler.unscale(optimizer);
    CHECK(optim::clip_grad_norm(optimizer, 1.0) == doctest::Approx(5));
    if (order == 1) scaler.unscale(optimizer);
    CHECK(scaler.step(optimizer).applied());
    scaler.update();
    results.push_back(to_vector(w)[0]);
  }
  CHECK(results[0] == doctest::Approx(-0.6));
  CHECK(results == Values(3, results[0]));
}

TEST_CASE("recipe: accumulation divides by the items of the window, and the scale is constant in it") {
  const Tensor w = leaf({0});
  optim::SGD optimizer({{"w", w}}, {.lr = 1});
  GradScaler scaler;
  const double window = 8;
  for (const double items : {3.0, 3.0, 2.0}) {
    backward(scaler.scale(ops::mul(loss_of(w, {items}), scalar(1 / window))));
  }
  CHECK(scaler.step(optimizer).applied());
  scaler.update();
  CHECK(to_vector(w)[0] == doctest::Approx(-1));
}

TEST_CASE("one bad micro-batch drops its window, and the next window steps") {
  const Tensor w = leaf({0});
  optim::SGD optimizer({{"w", w}}, {.lr = 1});
  GradScaler scaler;
  for (const double x : {0.5, 2.0, 0.5, 0.5}) backward(scaler.scale(loss_of(w, {x}, DType::f16)));
  CHECK(scaler.step(optimizer).get() == StepResult::skipped_overflow);
  scaler.update();
  CHECK(scaler.scale() == 32768);
  for (int i = 0; i < 4; ++i) backward(scaler.scale(loss_of(w, {0.5}, DType::f16)));
  CHECK(scaler.step(optimizer).applied());
  scaler.update();
  CHECK(to_vector(w)[0] == -2);
}

TEST_CASE("recipe: gradient penalty, its gradients taken with the scale and divided by it") {
  const Tensor w = leaf({0.5, -0.25});
  const Tensor x = from({2, 4}, {2});
  optim::SGD optimizer({{"w", w}}, {.lr = 1});
  GradScaler scaler;
  const Tensor product = ops::mul(w, x), loss = ops::sum(ops::mul(product, product));
  const autograd::ScaledLoss scaled = scaler.scale(loss);
  const Tensors gradients = autograd::grad({scaled.loss}, {w}, {.create_graph = true, .scale = scaled.scale});
  const Tensor g = ops::mul(gradients[0], scalar(1 / scaled.scale));
  const Tensor total = ops::add(loss, ops::sum(ops::mul(g, g)));
  backward(scaler.scale(total));
  CHECK(scaler.step(optimizer).applied());
  scaler.update();
  // d/dw Σ(wx)² + Σ(2wx²)² = 2wx² + 8wx⁴
  CHECK(to_vector(w)[0] == doctest::Approx(0.5 - (2 * 0.5 * 4 + 8 * 0.5 * 16)));
  CHECK(to_vector(w)[1] == doctest::Approx(-0.25 - (2 * -0.25 * 16 + 8 * -0.25 * 256)));
}

TEST_CASE("recipe: several losses with one scaler; several optimizers, one update") {
  const Tensor a = leaf({0}), b = leaf({0});
  optim::SGD first({{"a", a}}, {.lr = 1}), second({{"b", b}}, {.lr = 1});
  GradScaler scaler;
  backward(scaler.scale(loss_of(a, {2})));
  backward(scaler.scale(loss_of(b, {3})));
  backward(scaler.scale(loss_of(a, {1})));
  CHECK(scaler.step(first).applied());
  CHECK(scaler.step(second).applied());
  scaler.update();
  CHECK(to_vector(a)[0] == -3);
  CHECK(to_vector(b)[0] == -3);
  CHECK(scaler.state().scale.clean == 1);
}

TEST_CASE("a clean optimizer steps while another skips; the scale halves once") {
  const Tensor a = leaf({0}), b = leaf({0}), c = leaf({0});
  optim::SGD clean({{"a", a}}, {.lr = 1}), bad({{"b", b}}, {.lr = 1}), worse({{"c", c}}, {.lr = 1});
  GradScaler scaler;
  backward(scaler.scale(loss_of(a, {0.5}, DType::f16)));
  backward(scaler.scale(loss_of(b, {2}, DType::f16)));
  backward(scaler.scale(loss_of(c, {4}, DType::f16)));
  CHECK(scaler.step(bad).get() == StepResult::skipped_overflow);
  CHECK(scaler.step(clean).applied());
  CHECK(scaler.step(worse).get() == StepResult::skipped_overflow);
  scaler.update();
  CHECK(scaler.scale() == 32768);
  CHECK(to_vector(a)[0] == -0.5);
  CHECK(to_vector(b)[0] == 0);
}

TEST_CASE("a scaler per loss on shared leaves: the older gradient is rescaled exactly, the culprit's scale halves") {
  const Tensor w = leaf({0});
  optim::SGD optimizer({{"w", w}}, {.lr = 1});
  GradScaler large, small(static_scale(8));
  backward(large.scale(loss_of(w, {0.1f})));
  backward(small.scale(loss_of(w, {0.3f})));
  CHECK(large.step(optimizer).applied());
  large.update();
  CHECK(to_vector(w)[0] == -(static_cast<double>(0.1f + 0.3f)));

  GradScaler innocent, guilty;
  backward(innocent.scale(loss_of(w, {0.5}, DType::f16)));
  innocent.unscale(optimizer);
  backward(guilty.scale(loss_of(w, {2}, DType::f16)));
  guilty.unscale(optimizer);
  CHECK(innocent.step(optimizer).get() == StepResult::skipped_overflow);
  innocent.update();
  guilty.update();
  CHECK(innocent.scale() == 65536);
  CHECK(innocent.state().scale.clean == 0);
  CHECK(guilty.scale() == 32768);
}

TEST_CASE("a sweep after unscale is looked at again") {
  const Tensor w = leaf({0});
  optim::SGD optimizer({{"w", w}}, {.lr = 1});
  GradScaler scaler;
  backward(scaler.scale(loss_of(w, {0.5}, DType::f16)));
  scaler.unscale(optimizer);
  backward(scaler.scale(loss_of(w, {2}, DType::f16)));
  CHECK(scaler.step(optimizer).get() == StepResult::skipped_overflow);
  scaler.update();
  CHECK(scaler.scale() == 32768);
}

TEST_CASE("scaled and unscaled training give the same bits, whatever the scale does on the way") {
  const auto trained = [](const ScalerOptions& options) {
    const Tensor w = leaf({1, -1});
    optim::AdamW optimizer({{"w", w}}, {.lr = 0.1});
    GradScaler scaler(options);
    for (int t = 0; t < 8; ++t) {
      const Tensor loss = loss_of(w, {0.3f * static_cast<float>(t + 1), -0.7f});
      CHECK(one_step(scaler, optimizer, loss) == StepResult::applied);
    }
    return to_vector(w);
  };
  ScalerOptions growing;
  growing.scale.interval = 2;
  CHECK(trained(growing) == trained(amp::unscaled()));
  CHECK(trained(static_scale(1024)) == trained(amp::unscaled()));
}

TEST_CASE("recipe: half of the model is frozen, and keeps its bits and has no gradient") {
  const Tensor table = from({0.5, -2}, {2}), w = leaf({1, 1});
  Tensor frozen = from({3, 4}, {2}).set_requires_grad();
  frozen.set_requires_grad(false);
  optim::AdamW optimizer({{"frozen", frozen}, {"w", w}}, {.lr = 0.1, .weight_decay = 0.5});
  GradScaler scaler(static_scale(1024));
  for (int step = 0; step < 3; ++step) {
    const Tensor low = autograd::cast(ops::mul(ops::add(w, frozen), table), DType::f16);
    CHECK(one_step(scaler, optimizer, ops::sum(autograd::cast(low, DType::f32))) == StepResult::applied);
  }
  CHECK(to_vector(frozen) == Values{3, 4});  // no decay either
  const Values moved = to_vector(w);
  CHECK(moved[0] < 0.9);
  CHECK(moved[1] != 1);
  // Thawed, it joins in.
  frozen.set_requires_grad();
  CHECK_FALSE(frozen.grad());
  CHECK(one_step(scaler, optimizer, loss_of(frozen, {1, 1})) == StepResult::applied);
  CHECK(to_vector(frozen)[0] < 3);
}

TEST_CASE("weights-only load, then train") {
  const Tensor w = leaf({1});
  optim::AdamW optimizer({{"w", w}}, {.lr = 0.1, .weight_decay = 0});
  GradScaler scaler;
  CHECK(one_step(scaler, optimizer, loss_of(w, {0.5}, DType::f16)) == StepResult::applied);
  assign(w, from({0.1}, {1}, DType::bf16));  // weights in 16 bits are widened
  const double loaded = to_vector(w)[0];
  CHECK(loaded == 0.10009765625);
  CHECK(loss_of(w, {1}, DType::f16).item() == doctest::Approx(loaded));  // no stale shadow
  CHECK(one_step(scaler, optimizer, loss_of(w, {0.5}, DType::f16)) == StepResult::applied);
  CHECK(to_vector(w)[0] == doctest::Approx(loaded - 0.1).epsilon(1e-3));
}

}  // namespace
}  // namespace mixtape
