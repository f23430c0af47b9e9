// Parameters of 16 bits: what an update leaves in them under each rounding, against double precision and statistics.
#include <doctest/doctest.h>

#include <cmath>
#include <map>

#include "core/kernels/parallel.h"
#include "optim/adamw.h"
#include "optim/sgd.h"
#include "tests/optimizers.h"
#include "tests/shared.h"

namespace mixtape::tests {
namespace {

using optim::Rounding;
using optim::to_bf16_stochastic;
using Values = std::vector<double>;

constexpr Rounding all_roundings[] = {Rounding::nearest, Rounding::stochastic, Rounding::compensated};

/// `elements` weights of 1.0 after `steps` of plain SGD with lr·gradient = update.
struct Descent {
  Tensor p;
  optim::SGD optimizer;
  Descent(int64_t elements, Rounding rounding, uint64_t seed = 1, const std::string& name = "dense.weight",
          DType dtype = DType::bf16)
      : p(full({elements}, 1, dtype).set_requires_grad()), optimizer({{name, p}}, {.lr = 1}) {
    optimizer.set_rounding(rounding, seed);
  }
  void run(int steps, double update) {
    for (int t = 0; t < steps; ++t) {
      p.leaf().gradient = {full(p.shape(), -update, wide(p.dtype())), 1};
      CHECK(step(optimizer) == optim::StepResult::applied);
    }
  }
  Values values() const { return to_vector(p); }
};

double mean_of(const Values& values) {
  double sum = 0;
  for (const double v : values) sum += v;
  return sum / static_cast<double>(values.size());
}

}  // namespace

TEST_CASE("rounding: 100 updates of -6e-4 to a bf16 weight of 1: nearest stays, the other two arrive") {
  Descent nearest(1, Rounding::nearest);
  nearest.run(100, -6e-4);
  CHECK(nearest.values() == Values{1});

  // What is kept is p + c, c in bf16: each step errs by half a step of c's grid at most, |c| <= 2^-9: 2^-18 a step.
  Descent kahan(1, Rounding::compensated);
  kahan.run(100, -6e-4);
  const double kept = kahan.values()[0] + first(state_of(kahan.optimizer, "dense.weight.compensation"));
  CHECK(std::abs(kept - 0.94) < 100 * 0x1p-18);
  CHECK(std::abs(kahan.values()[0] - 0.94) <= 0x1p-9 + 100 * 0x1p-18);

  // A step of the grid is 2^-8 below 1. The sum of 100 roundings varies by 100·(2^-8)²/4 at most: sigma <= 0.0196 for
  // one weight, and a 64th of that for the mean of 4096.
  Descent stochastic(4096, Rounding::stochastic);
  stochastic.run(100, -6e-4);
  CHECK(std::abs(mean_of(stochastic.values()) - 0.94) < 5 * 0.0196 / 64);
}

TEST_CASE("rounding: by chance is one of two neighbours, the farther as often as the value is near it") {
  for (const float value : {1.0f, -1.0f, 1.001f, -1.0037f, 3.14159f, 1e-30f, -7e33f, 1e-40f, 0.0f}) {
    CAPTURE(value);
    const double low = to_float(to_bf16_stochastic(value, 0)), high = to_float(to_bf16_stochastic(value, 0xffff));
    CHECK(std::abs(low) <= std::abs(static_cast<double>(value)));
    CHECK(std::abs(high) >= std::abs(static_cast<double>(value)));
    double sum = 0;
    for (int draw = 0; draw < 0x10000; ++draw) {
      const double rounded = to_float(to_bf16_stochastic(value, static_cast<uint16_t>(draw)));
      CHECK_FALSE((rounded != low && rounded != high));
      sum += rounded;
    }
    CHECK(sum / 0x10000 == value);  // exact: 16 bits are dropped, and all 2^16 draws were made
  }
  const float largest = std::numeric_limits<float>::max();
  CHECK(std::isfinite(to_float(to_bf16_stochastic(largest, 0xffff))));
  CHECK(std::isinf(to_float(to_bf16_stochastic(INFINITY, 0xffff))));
  CHECK(to_float(to_bf16_stochastic(-INFINITY, 1)) == -INFINITY);
  CHECK(std::isnan(to_float(to_bf16_stochastic(NAN, 0xffff))));
}

TEST_CASE("rounding: by chance it is unbiased over elements, steps and seeds, with the variance of its formula") {
  const double update = -0.3 / 256;  // 0.3 of a step of the grid below 1
  const int64_t n = 1 << 16;
  for (const uint64_t seed : {1, 2, 3}) {
    Descent run(n, Rounding::stochastic, seed);
    run.run(1, update);
    const Values values = run.values();
    int64_t moved = 0;
    for (const double v : values) {
      CHECK_FALSE((v != 1 && v != 1 - 0x1p-8));
      moved += v != 1;
    }
    // Binomial(n, 0.3): sigma = sqrt(0.21/n).
    CHECK(std::abs(static_cast<double>(moved) / static_cast<double>(n) - 0.3) <
          5 * std::sqrt(0.21 / static_cast<double>(n)));
  }
}

TEST_CASE("rounding: the bits are a function of seed, parameter, step and element, and of nothing else") {
  const int64_t n = 5000;
  const auto after = [&](uint64_t seed, const std::string& name, int steps) {
    Descent run(n, Rounding::stochastic, seed, name);
    run.run(steps, -0.3 / 256);
    return run.values();
  };
  const Values one = after(1, "a", 1);
  CHECK(one == after(1, "a", 1));
  CHECK(one != after(2, "a", 1));
  CHECK(one != after(1, "b", 1));
  CHECK(Values(one.begin(), one.begin() + n / 2) != Values(one.begin() + n / 2, one.end()));
  // Other draws in the second step: elements that moved in the first do so again no oftener than others.
  const Values two = after(1, "a", 2);
  int64_t moved_twice = 0;
  for (size_t i = 0; i < two.size(); ++i) moved_twice += two[i] == 1 - 2 * 0x1p-8;
  CHECK(std::abs(static_cast<double>(moved_twice) / static_cast<double>(n) - 0.09) <
        5 * std::sqrt(0.09 * 0.91 / static_cast<double>(n)));
  const int threads = kernels::thread_count();
  for (const int count : {1, 2, 3}) {
    kernels::set_thread_count(count);
    Descent run(200'000, Rounding::stochastic);
    run.run(2, -0.3 / 256);
    static std::map<int, std::pair<Values, double>> seen;
    seen[count] = {run.values(), run.optimizer.lost_updates().value()};
    CHECK(seen[count] == seen[1]);
  }
  kernels::set_thread_count(threads);
}

TEST_CASE("rounding: AdamW on bf16 weights follows the f32 run where nearest rounding stands still") {
  const auto trained = [](DType dtype, Rounding rounding) {
    const Tensor p = full({2048}, 1, dtype).set_requires_grad();
    optim::AdamW optimizer({{"dense.weight", p}}, {.lr = 6e-4, .weight_decay = 0.01});
    optimizer.set_rounding(rounding, 3);
    for (int t = 0; t < 100; ++t) {
      p.leaf().gradient = {full(p.shape(), 1 + 0.1 * std::sin(t)), 1};
      CHECK(step(optimizer) == optim::StepResult::applied);
    }
    return mean_of(to_vector(p));
  };
  const double f32 = trained(DType::f32, Rounding::nearest);
  CHECK(f32 == doctest::Approx(0.94).epsilon(2e-3));
  CHECK(trained(DType::bf16, Rounding::nearest) == 1);
  CHECK(std::abs(trained(DType::bf16, Rounding::compensated) - f32) < 0x1p-9 + 100 * 0x1p-18);
  CHECK(std::abs(trained(DType::bf16, Rounding::stochastic) - f32) < 5 * 0.0196 / std::sqrt(2048.0));
}

TEST_CASE("case_25: decay alone moves bf16 weights that are rounded by chance, as far as it would in f32") {
  const int64_t n = 1 << 16;
  const Tensor p = full({n}, 1, DType::bf16).set_requires_grad();
  optim::AdamW optimizer({{"dense.weight", p}}, {.lr = 1e-2, .weight_decay = 1e-2});
  optimizer.set_rounding(Rounding::stochastic, 5);
  for (int t = 0; t < 10; ++t) {
    p.leaf().gradient = {zeros(p.shape()), 1};
    CHECK(step(optimizer) == optim::StepResult::applied);
  }
  CHECK_FALSE(optimizer.lost_updates());  // no element had a gradient
  // 1 - 1e-4 is 1 in bf16. Ten steps take 1e-3 in the mean; a step moves 0.0256 of the weights by 2^-8.
  const double sigma = std::sqrt(10 * 0.0256 / static_cast<double>(n)) / 256;
  CHECK(std::abs(mean_of(to_vector(p)) - std::pow(1 - 1e-4, 10)) < 5 * sigma);
}

TEST_CASE("rounding: the lost share counts updates without a trace among elements with a gradient") {
  const auto share = [](Rounding rounding, double update) {
    Descent run(1000, rounding);
    run.run(1, update);
    return run.optimizer.lost_updates().value();
  };
  CHECK(share(Rounding::nearest, -6e-4) == 1);
  CHECK(share(Rounding::nearest, -0.01) == 0);
  CHECK(share(Rounding::compensated, -6e-4) == 0);
  CHECK(std::abs(share(Rounding::stochastic, -6e-4) - (1 - 6e-4 * 256)) < 5 * std::sqrt(0.13 / 1000));
  Descent half(4, Rounding::nearest, 1, "w", DType::f16);
  half.p.leaf().gradient = {from({1e-5, 0, 0.1, 1e-5}, {4}), 1};
  CHECK(step(half.optimizer) == optim::StepResult::applied);
  CHECK(half.optimizer.lost_updates() == doctest::Approx(2.0 / 3));
  Descent wide(4, Rounding::stochastic, 1, "w", DType::f32);
  wide.run(1, -1e-12);
  CHECK_FALSE(wide.optimizer.lost_updates());
}

TEST_CASE("rounding: a skip takes nothing, and f32, f16 and f64 parameters are as they were without it") {
  for (const Rounding rounding : all_roundings) {
    Descent run(64, rounding);
    run.run(3, -6e-4);
    const Values before = run.values();
    const Tensor rest = state_of(run.optimizer, "dense.weight.compensation");
    CHECK(static_cast<bool>(rest) == (rounding == Rounding::compensated));
    const Values rest_before = rest ? to_vector(rest) : Values{};
    run.p.leaf().gradient = {full(run.p.shape(), NAN), 1};
    CHECK(step(run.optimizer) == optim::StepResult::skipped_overflow);
    CHECK(run.values() == before);
    if (rest) CHECK(to_vector(rest) == rest_before);
    for (const DType dtype : {DType::f32, DType::f16, DType::f64}) {
      Descent plain(64, Rounding::nearest, 1, "w", dtype), special(64, rounding, 1, "w", dtype);
      plain.run(3, -6e-4), special.run(3, -6e-4);
      CHECK(plain.values() == special.values());
      CHECK(special.optimizer.state().size() == 1);
    }
  }
}

TEST_CASE("rounding: a state put back into a fresh optimizer continues with the same bits") {
  for (const Rounding rounding : all_roundings) {
    Descent whole(1000, rounding), cut(1000, rounding);
    whole.run(9, -6e-4);
    cut.run(4, -6e-4);
    Descent rest(1000, rounding);
    assign(rest.p, cut.p);
    rest.optimizer.load_state(cut.optimizer.state());
    rest.run(5, -6e-4);
    CHECK(rest.values() == whole.values());
    if (rounding != Rounding::compensated) continue;
    CHECK(to_vector(state_of(rest.optimizer, "dense.weight.compensation")) ==
          to_vector(state_of(whole.optimizer, "dense.weight.compensation")));
    Descent other(1000, Rounding::stochastic);
    CHECK(
        contains(error_text([&] { other.optimizer.load_state(cut.optimizer.state()); }), "has no state of that name"));
    NamedTensors misshapen = cut.optimizer.state();
    misshapen[0].tensor = zeros({1000});
    CHECK(contains(error_text([&] { rest.optimizer.load_state(misshapen); }), "is f32[1000], expected bf16[1000]"));
    CHECK(contains(error_text([&] { rest.optimizer.set_rounding(Rounding::nearest, 1); }), "E-OPTIM-ROUNDING"));
  }
}

TEST_CASE("rounding: overflow and NaN in a value leave no NaN in what is kept beside it") {
  Descent run(2, Rounding::compensated);
  run.p.leaf().gradient = {from({-3.4e38, 1}, {2}), 1};
  CHECK(step(run.optimizer) == optim::StepResult::applied);
  CHECK(to_vector(state_of(run.optimizer, "dense.weight.compensation"))[0] == 0);
  CHECK(std::isinf(run.values()[0]));
}

}  // namespace mixtape::tests
