// inspect histogram at real steps: its advice against steps that run in fp16, replays against the run that they repeat.
#include <doctest/doctest.h>

#include <cmath>

#include "core/kernels/basic.h"
#include "core/parameter.h"
#include "tests/tiny_run.h"
#include "tools/inspect/collect.h"
#include "tools/inspect/watch.h"
#include "tools/trainer/setup.h"
#include "tools/trainer/train.h"

namespace mixtape::inspect {
namespace {
using nlohmann::json;
using tests::contains;
using tests::error_text;
using tests::slurp;
using tests::TinyRun;

/// Looks at one step of a configuration.
template <class Look>
void at(const config::Config& config, int64_t step, const Look& look) {
  trainer::Progress progress(trainer::Verbosity::quiet);
  (void)visit_steps(config, {step}, progress, look);
}

Collected collected(const config::Config& config, int64_t step, const CollectOptions& options = {}) {
  Collected out;
  at(config, step, [&](const PausedStep& paused) { out = collect(paused, options); });
  return out;
}

const Group& whole(const Collected& step, What what) {
  for (const Group& group : step.groups) {
    if (group.what == what && group.place.empty()) return group;
  }
  FAIL("no such group");
  return step.groups.front();
}

bool gradients_are_finite(const PausedStep& paused) {
  for (const NamedTensor& p : paused.model().parameters()) {
    const Gradient& gradient = p.tensor.leaf().gradient;
    if (gradient && !kernels::census(gradient.raw.view()).finite) return false;
  }
  return true;
}

/// Of the 16-bit activation gradients of a real step at this scale, those that are 0; and all of them.
struct Zeros {
  int64_t zero = 0, all = 0;
};
Zeros zeros_at(const PausedStep& paused, double scale) {
  Zeros out;
  StepWatch watch([&](const Sight& sight) {
    if (sight.what != Passing::gradient || !is_low(sight.tensor.dtype())) return false;
    Histogram values;
    values.add(sight.tensor);
    out.zero += values.zero();
    out.all += values.count();
    return true;
  });
  const ObserverGuard observing(watch.observer());
  const ComposedGuard composed({find_op("feed_forward")});
  (void)paused.run(trainer::make_precision(paused.config()).rule, scale);
  return out;
}

const std::vector<std::string> in_fp16 = {"amp.dtype=fp16"};

void check_sums(const Group& group) {
  CAPTURE(name_of(group.what));
  CAPTURE(group.place);
  int64_t in_bins = group.values.zero() + group.values.inf() + group.values.nan();
  for (int e = Histogram::lowest; e <= Histogram::highest; ++e) in_bins += group.values.in_bin(e);
  CHECK(in_bins == group.values.count());
  CHECK(group.at_scale.count() == group.values.count());
}

}  // namespace

TEST_CASE("inspect histogram: a step of a model, every share of it sums up") {
  const TinyRun tiny;
  const Collected step = collected(tiny.config(in_fp16), 2);
  CHECK(step.scale == 65536);
  CHECK(std::isfinite(step.loss));
  for (const What what : all_kinds) {
    const Group& all = whole(step, what);
    CHECK(all.values.count() > 0);
    int64_t parts = 0;
    for (const Group& group : step.groups) {
      check_sums(group);
      if (group.what == what && !group.place.empty()) parts += group.values.count();
    }
    CHECK(parts == all.values.count());
    if (is_scaled(what)) CHECK(all.values.fate(step.format, 16) == all.at_scale);
  }
  int64_t parameters = 0;
  at(tiny.config(), 1, [&](const PausedStep& paused) { parameters = paused.model().parameter_count(); });
  CHECK(whole(step, What::weight).values.count() == parameters);
  CHECK(whole(step, What::wgrad).values.count() == parameters);
  std::vector<std::string> places;
  for (const Group& group : step.groups) {
    if (group.what == What::weight) places.push_back(group.place);
  }
  CHECK(places == std::vector<std::string>{"", "bert.embeddings.*", "bert.encoder.layer.0.*", "bert.encoder.layer.1.*",
                                           "classifier.*"});
}

TEST_CASE("inspect histogram: what is counted is what the step stores in 16 bits, each tensor once") {
  const TinyRun tiny;
  for (const std::string policy : {"native", "apex_O1", "torch_cuda"}) {
    CAPTURE(policy);
    at(tiny.config({"amp.dtype=fp16", "amp.policy=" + policy}), 1, [&](const PausedStep& paused) {
      const Collected step = collect(paused, {.what = {What::agrad}, .format = {}, .scale = {}});
      const auto counted = whole(step, What::agrad).values.count();
      CHECK(counted > 0);
      if (policy == "native") CHECK(zeros_at(paused, 1024).all == counted);
    });
  }
  const Collected nothing = collected(tiny.config({"amp.dtype=fp16", "amp.policy=apex_O0"}), 1);
  CHECK(whole(nothing, What::agrad).values.count() == 0);
  CHECK(contains(collected_text(nothing, false), "stores none of them in 16 bits"));
}

TEST_CASE("inspect histogram: fp16 steps at the largest safe scale are finite, and at twice that are not") {
  const TinyRun tiny;
  for (const int64_t step : {1, 4, 9}) {
    CAPTURE(step);
    at(tiny.config(in_fp16), step, [&](const PausedStep& paused) {
      const auto rule = trainer::make_precision(paused.config()).rule;
      const Collected found = collect(paused, {});
      const double safe = std::ldexp(1.0, whole(found, What::agrad).values.largest_safe(found.format).value());
      const double loss = paused.run(rule, safe);
      CHECK(loss == doctest::Approx(found.loss).epsilon(0.01));
      CHECK(gradients_are_finite(paused));
      (void)paused.run(rule, 2 * safe);
      CHECK_FALSE(gradients_are_finite(paused));
    });
  }
}

TEST_CASE("inspect histogram: fp16 steps lose less than 1 % at the smallest scale, and more at half of it") {
  const TinyRun tiny;
  at(tiny.config(in_fp16), 3, [&](const PausedStep& paused) {
    const Collected found = collect(paused, {});
    const Group& all = whole(found, What::agrad);
    const auto others = static_cast<double>(all.values.count() - all.values.zero());
    const double scale = std::ldexp(1.0, all.values.smallest_losing_less(found.format, tolerated_loss).value());
    const auto lost = [&](double at_scale) {
      return static_cast<double>(zeros_at(paused, at_scale).zero - all.values.zero()) / others;
    };
    CHECK(lost(scale) < tolerated_loss);
    CHECK(lost(scale / 2) >= tolerated_loss);
    // Far from the border, too, the real count is the foreseen one, but for what was lost further up already.
    const Fate foreseen = all.values.fate(found.format, std::ilogb(scale) - 6);
    CHECK(lost(scale / 64) == doctest::Approx(foreseen.lost()).epsilon(0.05));
  });
}

TEST_CASE("inspect histogram: a configuration is trained up to the step, and a visit changes nothing after it") {
  const TinyRun tiny;
  const std::vector<std::vector<std::string>> kinds = {
      {"amp.dtype=off"},
      {"amp.dtype=fp16", "trainer.gradient_accumulation_steps=3"},
      {"amp.dtype=bf16", "amp.parameter_storage=bf16_kahan", "trainer.gradient_accumulation_steps=2"},
      {"amp.dtype=bf16", "amp.parameter_storage=bf16_stochastic"}};
  for (const std::vector<std::string>& sets : kinds) {
    CAPTURE(sets.front());
    const config::Config config = tiny.config(sets);
    const std::string alone = collected_json(collected(config, 4)).line();
    std::vector<std::string> visited;
    trainer::Progress progress(trainer::Verbosity::quiet);
    (void)visit_steps(config, {2, 3, 4}, progress,
                      [&](const PausedStep& paused) { visited.push_back(collected_json(collect(paused, {})).line()); });
    REQUIRE(visited.size() == 3);
    CHECK(visited[2] == alone);
    CHECK(visited[1] != alone);
  }
}

TEST_CASE("inspect histogram: checkpointed activations are counted once") {
  const TinyRun tiny;
  const auto groups = [&](const char* on) {
    const std::string set = message("trainer.activation_checkpointing=", on);
    return collected_json(collected(tiny.config({"amp.dtype=fp16", set}), 2)).line();
  };
  CHECK(groups("true") == groups("false"));
}

TEST_CASE("inspect histogram: the steps of a run directory are those that the run did") {
  const TinyRun tiny;
  trainer::Progress quiet(trainer::Verbosity::quiet);
  for (const std::string dtype : {"off", "fp16", "bf16"}) {
    CAPTURE(dtype);
    const std::string dir = tiny.path("run-" + dtype);
    const config::Config config = tiny.config({"amp.dtype=" + dtype, "trainer.save_steps=4", "trainer.eval_strategy=no",
                                               "amp.init_scale=1073741824", "amp.max_scale=1073741824"});
    (void)trainer::train(config, dir, {}, quiet);
    const auto steps = tests::events_of(tests::read_log(dir + "/log.jsonl"), "step");
    const std::string weights = slurp(dir + "/latest");
    for (const int64_t step : {1, 7, 12}) {
      CAPTURE(step);
      const json& event = steps.at(static_cast<size_t>(step - 1));
      const Origin origin = visit_steps_of_run(dir, {step}, quiet, [&](const PausedStep& paused) {
        CHECK(paused.loss_scale() == event.at("loss_scale").get<double>());
        CHECK(paused.run(trainer::make_precision(paused.config()).rule) == event.at("loss").get<double>());
      });
      CHECK(origin.checkpoint == (step == 12 ? 8 : 0));
    }
    CHECK(slurp(dir + "/latest") == weights);
  }
}

TEST_CASE("inspect histogram: a run that is not what it was is refused") {
  const TinyRun tiny;
  trainer::Progress quiet(trainer::Verbosity::quiet);
  const std::string dir = tiny.path("run");
  (void)trainer::train(tiny.config({"trainer.max_steps=3"}), dir, {}, quiet);
  const auto look = [&](int64_t step) {
    return error_text([&] { (void)visit_steps_of_run(dir, {step}, quiet, [](const PausedStep&) {}); });
  };
  CHECK(look(3) == "no error");
  CHECK(contains(look(4), "E-REPLAY-STEP"));
  CHECK(contains(look(0), "expected one from 1"));
  tiny.folder().write("data/train_labels.txt", tests::repeated("1\n", 24));
  CHECK(contains(look(2), "E-REPLAY-CHANGED"));
  CHECK(contains(look(2), "train_labels.txt"));
}

}  // namespace mixtape::inspect
