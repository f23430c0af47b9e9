// A trainer with a scaler for a second loss: one step for both, each scale by what its own loss did, all of it in the
// checkpoints.
#include <doctest/doctest.h>

#include <csignal>

#include "tests/recorder.h"
#include "tools/trainer/signals.h"

namespace mixtape::trainer {
namespace {
using optim::StepResult;
using tests::contains;
using tests::error_of;
using tests::error_text;
using tests::events_of;
using tests::metrics_of;
using tests::read_log;
using tests::RunOf;
using tests::TinyRun;
using tests::WatchedRun;

const std::vector<std::string> half = {"amp.dtype=fp16", "amp.init_scale=1024", "amp.growth_interval=3"};

std::vector<std::string> half_and(const std::vector<std::string>& more) {
  std::vector<std::string> sets = half;
  sets.insert(sets.end(), more.begin(), more.end());
  return sets;
}

constexpr double first_scale = 524288;

amp::ScalerOptions too_high() {
  amp::ScalerOptions options;
  options.scale.init = first_scale;
  options.scale.interval = 2;
  options.scale.growth = 16;
  return options;
}

/// Sweeps the loss a second time as an auxiliary one, at a scale of its own that is too high again and again.
class AuxiliaryLoss : public tests::WatchedTrainer {
 public:
  using WatchedTrainer::WatchedTrainer;
  amp::GradScaler& own = add_scaler("auxiliary", too_high());
  std::vector<double> own_scales;
  double main_factor = 1, factor = 1;  // of the losses
  int attempts = 0, raise_in = 0;

 protected:
  void on_batch(const data::Batch&) override {
    if (++attempts == raise_in) ::raise(SIGTERM);
  }
  void backward(const Tensor& loss, const data::Batch& batch) override {
    WatchedTrainer::backward(ops::mul(loss, full({}, main_factor)), batch);
    own.sweep(ops::mul(forward(batch), full({}, factor)), optimizer());
  }
  void on_step(const StepReport& report) override {
    WatchedTrainer::on_step(report);
    own_scales.push_back(own.scale());
  }
};
using AuxiliaryRun = RunOf<AuxiliaryLoss>;

class OtherName : public tests::WatchedTrainer {
 public:
  using WatchedTrainer::WatchedTrainer;
  amp::GradScaler& own = add_scaler("contrastive");
};
}  // namespace

TEST_CASE("a scaler per loss: the step is one, and only the scale of the loss that overflowed falls") {
  const TinyRun tiny;
  AuxiliaryRun run(tiny, "run", half);
  const TrainResult result = run.run();
  const auto& steps = run.trainer.steps;
  REQUIRE(result.skipped > 2);
  REQUIRE(result.updates > 2);
  CHECK(steps.front().result == StepResult::skipped_overflow);
  CHECK(run.trainer.own_scales[0] == first_scale);  // noted before the round ended
  CHECK(run.trainer.own_scales[1] == first_scale / 2);
  int64_t applied = 0;
  for (const StepReport& step : steps) {
    CHECK(step.loss_scale == 1024 * std::exp2(applied / 3));  // a skip does not count as clean, and halves nothing here
    applied += step.result == StepResult::applied ? 1 : 0;
  }
  CHECK(run.trainer.own.state().skipped_overflow == result.skipped);
  CHECK(run.trainer.own.state().rounds == result.steps);
}

TEST_CASE("a scaler per loss: an overflow of the other loss is tried again as one's own is") {
  const TinyRun tiny;
  AuxiliaryRun run(tiny, "run", half_and({"amp.retry_overflow=true"}));
  const TrainResult result = run.run();
  CHECK(result.skipped == 0);
  CHECK(result.updates == result.steps);
  CHECK(run.trainer.attempts > result.steps);
  CHECK(run.trainer.own.state().rounds == run.trainer.attempts);
}

TEST_CASE("a scaler per loss: a loss of one that is not finite moves no scale") {
  const TinyRun tiny;
  for (const bool own : {true, false}) {
    AuxiliaryRun run(tiny, own ? "own" : "main", half_and({"trainer.max_steps=2"}));
    (own ? run.trainer.factor : run.trainer.main_factor) = INFINITY;
    (void)run.run();
    for (const StepReport& step : run.trainer.steps) {
      CHECK(step.result == StepResult::skipped_nonfinite_loss);
      CHECK(step.nonfinite == std::vector<std::string>{"loss"});
    }
    CHECK(run.trainer.own.scale() == first_scale);
    CHECK(run.trainer.scaler_state().scale.scale == 1024);
    CHECK(run.trainer.own.state().skipped_nonfinite == 2);
    CHECK(run.trainer.scaler_state().skipped_nonfinite == 2);
  }
}

TEST_CASE("a scaler per loss: stopped anywhere, the run goes on with the same bits and both scales") {
  const TinyRun tiny;
  for (const char* retry : {"amp.retry_overflow=false", "amp.retry_overflow=true"}) {
    AuxiliaryRun whole(tiny, message("whole", retry), half_and({retry}));
    (void)whole.run();
    int stops = 0;
    for (int attempt = 3; attempt <= whole.trainer.attempts; attempt += 4) {
      CAPTURE(attempt);
      const std::string name = message("cut", retry, attempt);
      {
        Signals signals;
        AuxiliaryRun cut(tiny, name, half_and({retry}), &signals);
        cut.trainer.raise_in = attempt;
        if (cut.run().steps == 0) continue;  // nothing was saved
      }
      AuxiliaryRun rest(tiny, name, half_and({retry}));
      REQUIRE(rest.recover() > 0);
      (void)rest.run();
      ++stops;
      CHECK(rest.trainer.weights.back() == whole.trainer.weights.back());
      CHECK(rest.trainer.moments.back() == whole.trainer.moments.back());
      CHECK(rest.trainer.own.state() == whole.trainer.own.state());
      CHECK(rest.trainer.scaler_state() == whole.trainer.scaler_state());
      CHECK(metrics_of(rest.dir.path()) == metrics_of(whole.dir.path()));
    }
    CHECK(stops > 1);
  }
}

TEST_CASE("a scaler per loss: a trainer that makes other scalers than the checkpoint keeps is refused by name") {
  const TinyRun tiny;
  (void)AuxiliaryRun(tiny, "with", half).run();
  (void)WatchedRun(tiny, "without", half).run();
  const auto refusal = [&](auto&& run) {
    const auto error = error_of([&] { (void)run.recover(); });
    REQUIRE(error);
    CHECK(error->code() == "E-CHECKPOINT");
    return std::string(error->what());
  };
  CHECK(contains(refusal(WatchedRun(tiny, "with", half)), "also keeps the state of a loss scaler 'auxiliary'"));
  CHECK(contains(refusal(AuxiliaryRun(tiny, "without", half)), "does not keep the state of a loss scaler 'auxiliary'"));
  CHECK(contains(refusal(RunOf<OtherName>(tiny, "with", half)),
                 "does not keep the state of a loss scaler 'contrastive'"));
}

namespace {
class NameTwice : public tests::WatchedTrainer {
 public:
  using WatchedTrainer::WatchedTrainer;
  void again() { (void)add_scaler("auxiliary"), (void)add_scaler("auxiliary"); }
  void nameless() { (void)add_scaler(""); }
};
}  // namespace

TEST_CASE("a scaler per loss: a name that is taken or empty, and a step that is only tried") {
  const TinyRun tiny;
  RunOf<NameTwice> run(tiny, "names", half);
  CHECK(contains(error_text([&] { run.trainer.again(); }), "'auxiliary' is taken"));
  CHECK(contains(error_text([&] { run.trainer.nameless(); }), "a name of its own"));

  AuxiliaryRun tried(tiny, "tried", half);
  const amp::ScalerState before = tried.trainer.own.state();
  CHECK(tried.trainer.try_step(1024).result == StepResult::skipped_overflow);  // by the other loss
  CHECK(tried.trainer.own.state() == before);
  CHECK_FALSE(tried.trainer.own.in_round());
}

TEST_CASE("retry: stopped within a step that is tried again, the log keeps what it says of the steps before") {
  const TinyRun tiny;
  // The second step overflows at once; its attempts are cut, each in turn.
  const std::vector<std::string> sets = {"amp.dtype=fp16", "amp.init_scale=65536", "amp.growth_interval=1",
                                         "amp.growth_factor=4096", "amp.retry_overflow=true"};
  for (const int attempt : {3, 4}) {
    CAPTURE(attempt);
    const std::string name = message("cut", attempt);
    {
      Signals signals;
      AuxiliaryRun cut(tiny, name, sets, &signals);
      cut.trainer.factor = 0;
      cut.trainer.raise_in = attempt;
      REQUIRE(cut.run().steps >= 1);
    }
    AuxiliaryRun rest(tiny, name, sets);
    rest.trainer.factor = 0;
    REQUIRE(rest.recover() >= 1);
    (void)rest.run();
    const auto log = read_log(rest.dir.path("log.jsonl"));
    CHECK(events_of(log, "interrupted").size() == 1);
    CHECK(events_of(log, "resume").size() == 1);
  }
}

}  // namespace mixtape::trainer
