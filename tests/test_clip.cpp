#include <doctest/doctest.h>

#include <cmath>

#include "core/factory.h"
#include "optim/clip.h"
#include "optim/sgd.h"
#include "tests/shared.h"

namespace mixtape {
namespace {

using optim::clip_grad_norm;
using Values = std::vector<double>;

Tensor with_gradient(const Values& values, double multiplier = 1) {
  const Tensor p = zeros({static_cast<int64_t>(values.size())}).set_requires_grad();
  p.leaf().gradient = {from(values, p.shape()), multiplier};
  return p;
}

TEST_CASE("the norm is global, unscaled and in f64; above the limit only multipliers change") {
  const Tensor a = with_gradient({3 * 1024, 0}, 1.0 / 1024), b = with_gradient({4 * 64.0}, 1.0 / 64);
  const Values raw = to_vector(a.leaf().gradient.raw);
  CHECK(clip_grad_norm({{"a", a}, {"b", b}}, 1.0) == doctest::Approx(5).epsilon(1e-15));
  CHECK(to_vector(a.leaf().gradient.raw) == raw);
  CHECK(to_vector(a.grad())[0] == doctest::Approx(0.6));
  CHECK(to_vector(b.grad())[0] == doctest::Approx(0.8));
  CHECK(clip_grad_norm({{"a", a}, {"b", b}}, 0) == doctest::Approx(1));
}

TEST_CASE("scaled by 65536, true norm 0.5, limit 1: nothing to clip") {
  const Tensor a = with_gradient({32768}, 1.0 / 65536);
  CHECK(clip_grad_norm({{"a", a}}, 1.0) == 0.5);
  CHECK(a.leaf().gradient.multiplier == 1.0 / 65536);
}

TEST_CASE("limits: 1, 0, -1, NaN, inf") {
  const auto clipped = [](double limit) {
    const Tensor a = with_gradient({0.33});
    CHECK(clip_grad_norm({{"a", a}}, limit) == doctest::Approx(0.33));
    return a.leaf().gradient.multiplier;
  };
  CHECK(clipped(1) == 1);
  CHECK(clipped(0) == 1);
  CHECK(clipped(INFINITY) == 1);
  CHECK(clipped(0.3300001) == 1);
  CHECK(clipped(0.165) == doctest::Approx(0.5));
  const Tensor a = with_gradient({0.33});
  for (const double limit : {-1.0, static_cast<double>(NAN)}) {
    CHECK(tests::error_text([&] {
            clip_grad_norm({{"a", a}}, limit);
          }).find("E-CLIP: clip_grad_norm: max_norm = ") == 0);
    CHECK(a.leaf().gradient.multiplier == 1);
  }
}

TEST_CASE("zero gradients, absent gradients, no parameters") {
  const Tensor a = with_gradient({0, 0}), none = zeros({1}).set_requires_grad(), frozen = zeros({1});
  CHECK(clip_grad_norm({{"a", a}, {"none", none}, {"frozen", frozen}}, 1) == 0);
  CHECK(a.leaf().gradient.multiplier == 1);
  CHECK(clip_grad_norm(NamedTensors{}, 1) == 0);
}

TEST_CASE("a norm that is not finite multiplies nothing") {
  const Tensor bad = with_gradient({NAN, 1}), good = with_gradient({7});
  CHECK(std::isnan(clip_grad_norm({{"bad", bad}, {"good", good}}, 1)));
  CHECK(good.leaf().gradient.multiplier == 1);
  CHECK(bad.leaf().gradient.multiplier == 1);
  const Tensor huge = with_gradient({INFINITY});
  CHECK(std::isinf(clip_grad_norm({{"huge", huge}}, 1)));
}

TEST_CASE("the norm of large f32 values does not overflow") {
  const Tensor a = with_gradient({3e38, 3e38});
  CHECK(clip_grad_norm({{"a", a}}, 1) == doctest::Approx(3e38 * std::sqrt(2)));
  CHECK(to_vector(a.grad())[0] == doctest::Approx(std::sqrt(0.5)));
}

TEST_CASE("clipping an optimizer's gradients, and clipping again, reads them once and stays right") {
  const Tensor a = with_gradient({30, 40});
  optim::SGD optimizer({{"a", a}}, {.lr = 1});
  CHECK(optimizer.survey().norm == 50);
  CHECK(clip_grad_norm(optimizer, 5) == 50);
  CHECK(clip_grad_norm(optimizer, 1) == doctest::Approx(5));
  a.leaf().gradient = {from({3, 4}, {2}), 1};  // other bytes: read anew
  CHECK(clip_grad_norm(optimizer, 10) == 5);
  CHECK(optimizer.step().applied());
  CHECK(to_vector(a) == Values{-3, -4});
}

TEST_CASE("bytes that were overwritten since are read again") {
  const Tensor a = with_gradient({3, 4});
  optim::SGD optimizer({{"a", a}});
  CHECK(optimizer.survey().norm == 5);
  assign(a.leaf().gradient.raw, from({6, 8}, {2}));
  CHECK(optimizer.survey().norm == 10);
}

TEST_CASE("the reading pass finds one bad element among many, and the largest of the good ones") {
  for (const DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16}) {
    Values values(1031, -0.5);
    values[700] = -3;
    const kernels::Census good = kernels::census(from(values, {1031}, dtype).view());
    CHECK(good.finite);
    CHECK(good.max_abs == 3);
    CHECK(good.sum_of_squares == 1030 * 0.25 + 9);
    for (const double bad : {static_cast<double>(INFINITY), -static_cast<double>(INFINITY), static_cast<double>(NAN)}) {
      values[1030] = bad;
      const kernels::Census found = kernels::census(from(values, {1031}, dtype).view());
      CHECK_FALSE(found.finite);
      CHECK(found.max_abs == 3);
    }
  }
  CHECK(kernels::census(zeros({0}).view()).finite);
}

}  // namespace
}  // namespace mixtape
