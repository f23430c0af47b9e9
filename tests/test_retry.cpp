// A step whose gradients overflow, tried again at the lower scale; and which overflows a person hears about.
#include <doctest/doctest.h>

#include <csignal>
#include <stdexcept>

#include "core/factory.h"
#include "tests/recorder.h"
#include "tools/trainer/signals.h"

namespace mixtape::trainer {
namespace {
using tests::contains;
using tests::error_of;
using tests::events_of;
using tests::metrics_of;
using tests::read_log;
using tests::TinyRun;

const std::vector<std::string> high = {"amp.dtype=fp16", "amp.init_scale=16777216"};

std::vector<std::string> with(std::vector<std::string> sets, const std::vector<std::string>& more) {
  sets.insert(sets.end(), more.begin(), more.end());
  return sets;
}

/// Sees every attempt; raises SIGTERM in the one with that number; says so where a step is tried without end.
class AttemptWatcher : public tests::WatchedTrainer {
 public:
  using WatchedTrainer::WatchedTrainer;
  int attempts = 0, raise_in = 0;

 protected:
  void on_batch(const data::Batch&) override {
    if (++attempts == raise_in) ::raise(SIGTERM);
    if (attempts > 1000) throw std::logic_error("a step is tried again and again");
  }
};
using AttemptRun = tests::RunOf<AttemptWatcher>;
}  // namespace

TEST_CASE("retry: an overflow costs an attempt, not its batch; dropout draws the same masks again") {
  const TinyRun tiny;
  AttemptRun skipping(tiny, "skipping", high);
  const TrainResult skipped = skipping.run();
  REQUIRE(skipped.skipped > 0);
  AttemptRun retrying(tiny, "retrying", with(high, {"amp.retry_overflow=true"}));
  const TrainResult result = retrying.run();
  CHECK(result.skipped == 0);
  CHECK(result.updates == result.steps);
  for (const StepReport& step : retrying.trainer.steps) CHECK(step.result == optim::StepResult::applied);

  const auto overflows = events_of(read_log(retrying.dir.path("log.jsonl")), "overflow");
  REQUIRE_FALSE(overflows.empty());
  double scale = 16777216;
  for (const nlohmann::json& event : overflows) {
    CHECK(event.at("retried") == true);
    CHECK(event.at("loss_scale") == scale);
    CHECK_FALSE(event.at("parameters").empty());
    scale /= 2;
  }
  // The run that begins at the scale at which the first step was applied in the end is the same run.
  const double fitting = retrying.trainer.steps.front().loss_scale;
  CHECK(overflows.front().at("step") == 1);
  AttemptRun lower(tiny, "lower", {"amp.dtype=fp16", message("amp.init_scale=", fitting), "amp.retry_overflow=true"});
  (void)lower.run();
  CHECK(retrying.trainer.weights == lower.trainer.weights);
  CHECK(retrying.trainer.moments == lower.trainer.moments);
}

TEST_CASE("retry: where the scale falls no further, or at first forgives, the step is a skip as without it") {
  const TinyRun tiny;
  for (const std::vector<std::string>& more :
       {std::vector<std::string>{"amp.min_scale=16777216"}, {"amp.loss_scale=16777216"}, {"amp.hysteresis=3"}}) {
    CAPTURE(more.front());
    const auto sets = with(with(high, more), {"amp.retry_overflow=true", "trainer.max_steps=3"});
    AttemptRun run(tiny, more.front(), sets);
    const TrainResult result = run.run();
    CHECK(run.trainer.steps.front().result == optim::StepResult::skipped_overflow);
    CHECK(result.skipped == (more.front() == "amp.hysteresis=3" ? 2 : 3));
  }
  // A loss that is not finite is no overflow: no scale cures it, so nothing is tried again.
  AttemptRun broken(tiny, "broken", {"amp.dtype=fp16", "amp.retry_overflow=true", "amp.max_consecutive_skips=2"});
  for (const NamedTensor& parameter : broken.model->parameters()) {
    if (parameter.name == "classifier.weight") assign(parameter.tensor, full(parameter.tensor.shape(), NAN));
  }
  CHECK(error_of([&] { (void)broken.run(); })->exit_code() == 20);
  CHECK(broken.trainer.steps.size() == 2);
  CHECK(broken.trainer.steps.back().loss_scale == 65536);
}

TEST_CASE("retry: amp.max_consecutive_skips counts steps, whatever number of attempts they had") {
  const TinyRun tiny;
  AttemptRun fits(tiny, "fits", with(high, {"amp.retry_overflow=true", "amp.max_consecutive_skips=1"}));
  const TrainResult result = fits.run();  // several attempts, and no step was skipped
  CHECK(result.skipped == 0);
  const auto attempts = events_of(read_log(fits.dir.path("log.jsonl")), "overflow");
  REQUIRE(attempts.size() > 2);
  for (size_t i = 0; i < attempts.size(); ++i) {
    CHECK(attempts[i].at("step") == 1);
    CHECK(attempts[i].at("attempt") == i + 1);
  }
  // The first step has two attempts, the second of them at the floor, where the others stay: the third ends the run.
  AttemptRun stuck(tiny, "stuck",
                   with(high, {"amp.retry_overflow=true", "amp.max_consecutive_skips=3", "amp.min_scale=8388608",
                               "trainer.max_steps=5"}));
  const auto error = error_of([&] { (void)stuck.run(); });
  REQUIRE(error);
  CHECK(error->exit_code() == 20);
  CHECK(contains(error->what(), "training diverged: 3 steps in a row were not finite"));
  const auto log = read_log(stuck.dir.path("log.jsonl"));
  CHECK(events_of(log, "diverged").at(0).at("step") == 3);
  CHECK(events_of(log, "overflow").size() == 4);  // the scale stays at the floor: one attempt from the second step on
}

TEST_CASE("retry: stopped inside a step that is tried again, the run goes on with the same bits and counters") {
  const TinyRun tiny;
  // The scale doubles after each clean step, so that steps overflow again and again.
  const std::vector<std::string> sets = {"amp.dtype=fp16", "amp.init_scale=65536", "amp.growth_interval=1",
                                         "amp.growth_factor=64", "amp.retry_overflow=true"};
  AttemptRun whole(tiny, "whole", sets);
  (void)whole.run();
  const auto overflows = events_of(read_log(whole.dir.path("log.jsonl")), "overflow");
  REQUIRE(overflows.size() > 2);
  int stops = 0;
  for (int attempt = 2; attempt <= whole.trainer.attempts; attempt += 3) {
    const std::string name = message("cut", attempt);
    {
      Signals signals;
      AttemptRun cut(tiny, name, sets, &signals);
      cut.trainer.raise_in = attempt;
      if (cut.run().steps == 0) continue;  // nothing was saved
    }
    AttemptRun rest(tiny, name, sets);
    (void)rest.recover();
    (void)rest.run();
    ++stops;
    CHECK(rest.trainer.weights.back() == whole.trainer.weights.back());
    CHECK(rest.trainer.moments.back() == whole.trainer.moments.back());
    CHECK(rest.trainer.steps.back().loss_scale == whole.trainer.steps.back().loss_scale);
    CHECK(metrics_of(rest.dir.path()) == metrics_of(whole.dir.path()));
    CHECK(events_of(read_log(rest.dir.path("log.jsonl")), "overflow").size() == overflows.size());
  }
  CHECK(stops > 2);
}

TEST_CASE("overflow messages: all, the first one, or none; the log has every one") {
  const TinyRun tiny;
  const std::string base = "train '" + tiny.config_path() + "' --force -s '" + tiny.path("run") + "'";
  const auto lines = [&](const std::string& which) {
    const tests::ProgramResult result =
        tests::run_program(base + tests::set_options({"amp.dtype=fp16", "amp.growth_interval=1", "amp.growth_factor=64",
                                                      "amp.overflow_messages=" + which}));
    REQUIRE(result.exit_code == 0);
    int count = 0;
    for (size_t at = 0; (at = result.err.find("overflow at loss scale", at)) != std::string::npos; ++at) ++count;
    const auto events = events_of(read_log(tiny.path("run/log.jsonl")), "overflow");
    REQUIRE(events.size() > 1);
    return std::pair(count, std::ssize(events));
  };
  const auto [all, events] = lines("all");
  CHECK(all == events);  // the first step fits: none of them is of the start
  CHECK(lines("first") == std::pair(1, events));
  CHECK(lines("none") == std::pair(0, events));
  const auto at_start = [&](const std::vector<std::string>& more) {
    return tests::run_program(base + tests::set_options(with(high, more))).err;
  };
  CHECK(contains(at_start({}), "skipped until the gradients fitted"));
  CHECK(contains(at_start({"amp.retry_overflow=true"}), " attempts in vain until the gradients fitted"));
  // The first overflow is forgiven, so its step is skipped; the others are attempts at the second.
  CHECK(contains(at_start({"amp.retry_overflow=true", "amp.hysteresis=2"}), ": 1 step skipped, "));
  const auto later =
      tests::run_program(base + tests::set_options({"amp.dtype=fp16", "amp.growth_interval=1", "amp.growth_factor=64",
                                                    "amp.overflow_messages=all", "amp.retry_overflow=true"}));
  CHECK(contains(later.err, ", attempt 1: overflow at loss scale "));
  CHECK(contains(later.err, ", the step is tried again"));
  CHECK_FALSE(contains(at_start({"amp.overflow_messages=none"}), "until the gradients fitted"));
}

}  // namespace mixtape::trainer
