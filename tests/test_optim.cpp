#include <doctest/doctest.h>

#include <cmath>

#include "autograd/cast.h"
#include "core/kernels/parallel.h"
#include "optim/adamw.h"
#include "optim/sgd.h"
#include "tests/optimizers.h"
#include "tests/shared.h"

namespace mixtape {
namespace {

using optim::AdamW;
using optim::Outcome;
using optim::SGD;
using optim::StepResult;
using tests::error_text;
using tests::first;
using tests::parameter;
using tests::set_gradient;
using tests::state_of;
using tests::step;
using Values = std::vector<double>;

// AdamW as its paper writes it, in double.
struct AdamWReference {
  double p, m = 0, v = 0;
  int t = 0;
  void step(double g, double lr, double wd) {
    ++t;
    m = 0.9 * m + 0.1 * g;
    v = 0.999 * v + 0.001 * g * g;
    const double m_hat = m / (1 - std::pow(0.9, t)), v_hat = v / (1 - std::pow(0.999, t));
    p = p - lr * (m_hat / (std::sqrt(v_hat) + 1e-8) + wd * p);
  }
};

TEST_CASE("AdamW follows the formula of its paper, in f64 to the last digits and in f32 to f32's") {
  for (const DType dtype : {DType::f64, DType::f32}) {
    const double tolerance = dtype == DType::f64 ? 1e-13 : 3e-6;
    Values start, gradient;
    for (int i = 0; i < 1031; ++i) start.push_back(std::sin(i)), gradient.push_back(std::cos(3 * i) * 0.1);
    const Tensor p = parameter(start, dtype);
    AdamW optimizer({{"weight", p}}, {.lr = 1e-2, .weight_decay = 0.1});
    std::vector<AdamWReference> reference;
    for (const double value : start) reference.push_back({value});
    for (int t = 0; t < 20; ++t) {
      Values g;
      for (const double value : gradient) g.push_back(value * std::sin(0.7 * t + 1));
      set_gradient(p, g);
      CHECK(step(optimizer) == StepResult::applied);
      for (size_t i = 0; i < g.size(); ++i) reference[i].step(g[i], 1e-2, 0.1);
    }
    const Values got = to_vector(p);
    for (size_t i = 0; i < got.size(); ++i) CHECK(got[i] == doctest::Approx(reference[i].p).epsilon(tolerance));
  }
}

TEST_CASE("the multiplier is part of the pass: gradient·65536 with 1/65536 gives the same bits") {
  const Tensor a = parameter({1, -2, 3}), b = parameter({1, -2, 3});
  AdamW left({{"a", a}}), right({{"a", b}});
  for (int t = 0; t < 5; ++t) {
    set_gradient(a, {0.1, 0.2, -0.3});
    const float tenth = 0.1f, fifth = 0.2f, third = -0.3f;
    set_gradient(b, {65536.0 * tenth, 65536.0 * fifth, 65536.0 * third}, 1.0 / 65536);
    CHECK(left.step().applied());
    CHECK(right.step().applied());
  }
  CHECK(to_vector(a) == to_vector(b));
}

TEST_CASE("a zero gradient is exact: no 0/0, and an unused row stays where decay alone puts it") {
  const Tensor p = parameter({0, 1, 2}), frozen_row = parameter({5});
  AdamW optimizer(std::vector<optim::ParameterGroup>{{.parameters = {{"p", p}, {"row", frozen_row}}}}, {.lr = 1});
  set_gradient(p, {0, 0, 1});
  set_gradient(frozen_row, {0});
  CHECK(step(optimizer) == StepResult::applied);
  CHECK(to_vector(p)[0] == 0);
  CHECK(to_vector(p)[1] == 1);
  CHECK(to_vector(p)[2] == doctest::Approx(1));
  CHECK(first(frozen_row) == 5);
}

TEST_CASE("moments do not vanish as they would in 16 bits") {
  for (const DType dtype : {DType::f16, DType::bf16, DType::f32}) {
    const Tensor p = parameter({1}, dtype);
    AdamW optimizer({{"p", p}}, {.lr = 0.01, .weight_decay = 0});
    set_gradient(p, {1.5e-3});
    CHECK(step(optimizer) == StepResult::applied);
    CHECK(state_of(optimizer, "p.exp_avg_sq").dtype() == DType::f32);
    CHECK(first(state_of(optimizer, "p.exp_avg_sq")) == doctest::Approx(2.25e-9));  // 0 in half
    CHECK(first(p) == doctest::Approx(0.99).epsilon(0.004));
  }
}

TEST_CASE("decay and update meet in f32 and are rounded once") {
  SUBCASE("a decay that a 16-bit product would lose") {
    // 1 - 2e-7 is 1 in bf16 and in half, and 1 - 1.8e-7 in f32: the decay must not go through that factor.
    const Tensor p = parameter({1e4});
    AdamW optimizer({{"weight", p}}, {.lr = 2e-5, .weight_decay = 100});
    set_gradient(p, {0});
    CHECK(step(optimizer) == StepResult::applied);
    CHECK(first(p) == doctest::Approx(1e4 - 20).epsilon(1e-7));
  }
  SUBCASE("halves of a bf16 ulp that add up to one") {
    // Below 1 the ulp of bf16 is 2^-8: an update and a decay of 0.3 ulp each are lost one by one, not together.
    const Tensor p = parameter({1}, DType::bf16);
    const double part = 0.3 / 256;
    AdamW optimizer({{"weight", p}}, {.lr = part, .weight_decay = 1});
    set_gradient(p, {1e3});
    CHECK(step(optimizer) == StepResult::applied);
    CHECK(first(p) == 1 - 1.0 / 256);
  }
  SUBCASE("a step below the half ulp of bf16 changes nothing, in f32 it does") {
    const Tensor low = parameter({1}, DType::bf16), master = parameter({1});
    AdamW a({{"low", low}}, {.lr = 6e-4, .weight_decay = 0}), b({{"master", master}}, {.lr = 6e-4, .weight_decay = 0});
    for (int t = 0; t < 100; ++t) {
      set_gradient(low, {1}), set_gradient(master, {1});
      CHECK(a.step().applied());
      CHECK(b.step().applied());
    }
    CHECK(first(low) == 1);
    CHECK(first(master) == doctest::Approx(0.94).epsilon(1e-4));
  }
}

TEST_CASE("bias correction counts the updates of each parameter") {
  const Tensor early = parameter({1}), late = parameter({1});
  AdamW optimizer({{"early", early}, {"late", late}}, {.lr = 0.01, .weight_decay = 0});
  for (int t = 0; t < 100; ++t) {
    set_gradient(early, {1});
    CHECK(step(optimizer) == StepResult::applied);
  }
  CHECK(first(late) == 1);  // no gradient: not even decayed
  CHECK(!state_of(optimizer, "late.exp_avg"));
  set_gradient(late, {1});
  CHECK(step(optimizer) == StepResult::applied);
  CHECK(first(late) == doctest::Approx(0.99));  // a first step, of size lr
  CHECK(first(state_of(optimizer, "early.step")) == 100);
  CHECK(first(state_of(optimizer, "late.step")) == 1);
}

TEST_CASE("the pass writes the 16-bit shadow along") {
  for (const DType low : {DType::bf16, DType::f16}) {
    Values start;
    for (int i = 0; i < 1500; ++i) start.push_back(0.01 * i);
    const Tensor p = parameter(start);
    AdamW optimizer({{"p", p}}, {.lr = 0.1});
    const void* bytes = autograd::cast(p, low).storage().data();
    set_gradient(p, Values(1500, 1.0));
    CHECK(step(optimizer) == StepResult::applied);
    CHECK(p.leaf().shadow.version == p.storage().version());
    const Tensor after = autograd::cast(p, low);
    CHECK(after.storage().data() == bytes);  // aliased, not made anew
    CHECK(to_vector(after) == to_vector(copy_of(p, low)));
  }
}

TEST_CASE("a shadow that somebody still holds is never written under them") {
  const Tensor p = parameter({1, 2});
  AdamW optimizer({{"p", p}}, {.lr = 0.5});
  const Tensor held = autograd::cast(p, DType::bf16);
  set_gradient(p, {1, 1});
  CHECK(step(optimizer) == StepResult::applied);
  CHECK(to_vector(held) == Values{1, 2});
  CHECK(to_vector(autograd::cast(p, DType::bf16)) == to_vector(copy_of(p, DType::bf16)));
}

TEST_CASE("weights loaded between steps reach the shadow") {
  const Tensor p = parameter({1, 2});
  AdamW optimizer({{"p", p}}, {.lr = 0.5});
  set_gradient(p, {1, 1});
  CHECK(autograd::cast(p, DType::bf16).dtype() == DType::bf16);
  CHECK(step(optimizer) == StepResult::applied);
  assign(p, from({8, 9}, {2}));
  CHECK(to_vector(autograd::cast(p, DType::bf16)) == Values{8, 9});
}

TEST_CASE("SGD: plain, with momentum, Nesterov, and decay as a penalty") {
  const auto after_two = [](optim::SGDOptions options) {
    const Tensor p = parameter({1}, DType::f64);
    SGD optimizer({{"weight", p}}, options);
    for (const double g : {0.5, -0.25}) {
      set_gradient(p, {g});
      CHECK(step(optimizer) == StepResult::applied);
    }
    return first(p);
  };
  CHECK(after_two({.lr = 0.1}) == doctest::Approx(1 - 0.1 * 0.25));
  CHECK(after_two({.lr = 0.1, .momentum = 0.9}) == doctest::Approx(1 - 0.1 * 0.5 - 0.1 * (0.9 * 0.5 - 0.25)));
  // Nesterov: g + 0.9·b with b = 0.5, then b = 0.2
  CHECK(after_two({.lr = 0.1, .momentum = 0.9, .nesterov = true}) ==
        doctest::Approx(1 - 0.1 * (0.5 + 0.45) - 0.1 * (-0.25 + 0.9 * 0.2)));
  const double once = 1 - 0.1 * (0.5 + 0.01 * 1);
  CHECK(after_two({.lr = 0.1, .weight_decay = 0.01}) == doctest::Approx(once - 0.1 * (-0.25 + 0.01 * once)));
}

TEST_CASE("a state that does not fit is refused whole") {
  const Tensor p = parameter({1, 2});
  AdamW optimizer({{"p", p}});
  const Tensor m = from({1, 1}, {2}), one = from_ints({1}, {});
  const auto load = [&](const NamedTensors& state) { return error_text([&] { optimizer.load_state(state); }); };
  CHECK(load({{"q.exp_avg", m}}) ==
        "E-OPTIM-STATE: optimizer state: 'q.exp_avg' belongs to no parameter of this optimizer");
  CHECK(load({{"p.momentum", m}}) ==
        "E-OPTIM-STATE: optimizer state: 'p.momentum': this optimizer has no state of that name");
  CHECK(load({{"p.exp_avg", from({1}, {1})}}) ==
        "E-OPTIM-STATE: optimizer state: 'p.exp_avg' is f32[1], expected f32[2]");
  CHECK(load({{"p.exp_avg", m}, {"p.step", one}}) ==
        "E-OPTIM-STATE: optimizer state: 'p' is incomplete: it needs step >= 1 and every moment");
  CHECK(load({{"p.step", m}}) == "E-OPTIM-STATE: optimizer state: 'p.step' must be one i64");
  CHECK(optimizer.state().empty());
  CHECK(load({{"p.exp_avg", m}, {"p.exp_avg_sq", m}, {"p.step", one}}) == "no error");
  CHECK(optimizer.state().size() == 3);
}

TEST_CASE("biases and normalisations do not decay by default") {
  const std::pair<const char*, bool> cases[] = {{"embeddings.word_embeddings.weight", true},
                                                {"encoder.layer.0.attention.self.query.weight", true},
                                                {"encoder.layer.0.attention.self.query.bias", false},
                                                {"encoder.layer.0.attention.output.LayerNorm.weight", false},
                                                {"encoder.layer.0.attention.output.LayerNorm.bias", false},
                                                {"embeddings.LayerNorm.gamma", false},
                                                {"final_norm.weight", false},
                                                {"norm1.weight", false},
                                                {"normaliser.weight", true},
                                                {"weight", true},
                                                {"bias", false},
                                                {"bias_net.weight", true}};
  for (const auto& expected : cases) {
    CAPTURE(expected.first);
    CHECK(optim::is_decayed(expected.first) == expected.second);
  }
  const Tensor weight = parameter({1}), bias = parameter({1});
  AdamW optimizer({{"l.weight", weight}, {"l.bias", bias}}, {.lr = 0.1, .weight_decay = 0.5});
  set_gradient(weight, {0}), set_gradient(bias, {0});
  CHECK(step(optimizer) == StepResult::applied);
  CHECK(first(weight) == doctest::Approx(0.95));
  CHECK(first(bias) == 1);
}

TEST_CASE("groups bring their own decay and rate") {
  const Tensor slow = parameter({0}), fast = parameter({0});
  AdamW optimizer(std::vector<optim::ParameterGroup>{{.parameters = {{"slow", slow}}, .lr_multiplier = 0.5},
                                                     {.parameters = {{"fast", fast}}}},
                  {.lr = 0.1});
  optimizer.set_lr(0.2);
  set_gradient(slow, {1}), set_gradient(fast, {1});
  CHECK(step(optimizer) == StepResult::applied);
  CHECK(first(slow) == doctest::Approx(-0.1));
  CHECK(first(fast) == doctest::Approx(-0.2));
}

TEST_CASE("half of a model may be frozen at any time") {
  Tensor head = parameter({1}), body = parameter({1});
  AdamW optimizer({{"head", head}, {"body", body}}, {.lr = 0.1});
  body.set_requires_grad(false);
  set_gradient(head, {1});
  CHECK(step(optimizer) == StepResult::applied);
  CHECK(first(head) < 1);
  CHECK(first(body) == 1);
  body.set_requires_grad();
  set_gradient(body, {1});
  CHECK(step(optimizer) == StepResult::applied);
  CHECK(first(body) < 1);
}

TEST_CASE("misuse is refused with the parameter's name") {
  const Tensor p = parameter({1});
  using optim::ParameterGroup;
  const auto made = [](const NamedTensors& parameters) { return error_text([&] { AdamW optimizer(parameters); }); };
  CHECK(made({{"p", p}, {"again", p}}) ==
        "E-OPTIM-PARAMETER: optimizer: parameter 'again' comes twice: it would be updated twice a step");
  CHECK(made({{"p", p}, {"p", parameter({2})}}).find("'p' shares its name") != std::string::npos);
  CHECK(made({{"ids", from_ints({1}, {1})}}).find("'ids' is i64, expected a float dtype") != std::string::npos);
  CHECK(made({{"none", Tensor()}}).find("'none' is an absent tensor") != std::string::npos);
  const auto with = [&](optim::AdamWOptions options) {
    return error_text([&] { AdamW optimizer({{"p", p}}, options); });
  };
  CHECK(with({.lr = -1}) == "E-OPTIM-LR: optimizer: lr = -1: must be finite and >= 0");
  CHECK(with({.lr = INFINITY}).find("E-OPTIM-LR") == 0);
  CHECK(with({.lr = NAN}).find("E-OPTIM-LR") == 0);
  CHECK(with({.beta1 = 1}).find("E-OPTIM-ADAMW: AdamW: beta1 = 1") == 0);
  CHECK(with({.eps = 1e-46}).find("AdamW: eps = 1e-46: must be finite and > 0, also in f32") != std::string::npos);
  CHECK(with({.weight_decay = -0.1}).find("E-OPTIM-GROUP") == 0);
  CHECK(error_text([&] { SGD optimizer({{"p", p}}, {.momentum = 1}); }).find("E-OPTIM-SGD") == 0);
  CHECK(error_text([&] { SGD optimizer({{"p", p}}, {.nesterov = true}); }).find("E-OPTIM-SGD") == 0);
}

TEST_CASE("a step does not depend on the number of threads") {
  const int threads = kernels::thread_count();
  Values values(100'003);
  for (size_t i = 0; i < values.size(); ++i) values[i] = std::sin(static_cast<double>(i));
  std::vector<Values> results;
  for (const int count : {1, 2, 3}) {
    kernels::set_thread_count(count);
    const Tensor p = parameter(values);
    AdamW optimizer({{"p", p}});
    set_gradient(p, values, 0.5);
    results.push_back({optimizer.survey().norm});
    CHECK(step(optimizer) == StepResult::applied);
    results.push_back(to_vector(p));
  }
  kernels::set_thread_count(threads);
  CHECK(results[0] == results[2]);
  CHECK(results[1] == results[3]);
  CHECK(results[0] == results[4]);
  CHECK(results[1] == results[5]);
}

TEST_CASE("outcomes have the names of the log") {
  CHECK(name_of(StepResult::applied) == "applied");
  CHECK(name_of(StepResult::skipped_overflow) == "skipped_overflow");
  CHECK(name_of(StepResult::skipped_nonfinite_loss) == "skipped_nonfinite_loss");
  CHECK(name_of(StepResult::no_gradients) == "no_gradients");
  CHECK(Outcome(StepResult::skipped_nonfinite_loss).skipped());
  CHECK_FALSE(Outcome(StepResult::no_gradients).skipped());
}

}  // namespace
}  // namespace mixtape
