// Signals: a flag that is polled, a run that saves itself, and handlers that go away again.
#include <doctest/doctest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

#include "tests/recorder.h"
#include "tools/trainer/signals.h"

namespace mixtape::trainer {
namespace {
using tests::events_of;
using tests::metrics_of;
using tests::read_log;
using tests::TinyRun;
using tests::WatchedRun;
}  // namespace

TEST_CASE("signals: the first is polled, and the handlers go with the object") {
  struct sigaction before {
  }, now{};
  ::sigaction(SIGINT, nullptr, &before);
  for (const int signal : {SIGINT, SIGTERM, SIGUSR1}) {
    Signals signals;
    CHECK_NOTHROW(signals.poll());
    ::raise(signal);
    try {
      signals.poll();
      FAIL("nothing was heard");
    } catch (const Interrupted& stop) {
      CHECK(stop.signal() == signal);
    }
  }
  ::sigaction(SIGINT, nullptr, &now);
  const bool as_before = now.sa_handler == before.sa_handler;
  CHECK(as_before);
  Signals fresh;
  CHECK_NOTHROW(fresh.poll());  // what came before is forgotten
}

TEST_CASE("signals: SIGHUP asks for one save, SIGPIPE and SIGXFSZ kill nobody") {
  Signals signals;
  CHECK_FALSE(signals.take_save_request());
  for (const int signal : {SIGHUP, SIGPIPE, SIGXFSZ}) ::raise(signal);
  CHECK(signals.take_save_request());
  CHECK_FALSE(signals.take_save_request());
  CHECK_NOTHROW(signals.poll());
}

TEST_CASE("signals: the second ends the process at once (F7)") {
  const pid_t child = ::fork();
  if (child == 0) {
    Signals signals;
    ::raise(SIGINT);
    ::raise(SIGTERM);
    ::_exit(0);
  }
  int status = 0;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(WIFEXITED(status));
  CHECK(WEXITSTATUS(status) == 143);
}

TEST_CASE("signals: a run stops within the step, saves, and goes on with the same bits (F6)") {
  const TinyRun tiny(22);
  const std::vector<std::string> sets = {"amp.dtype=bf16", "trainer.gradient_accumulation_steps=3"};
  WatchedRun whole(tiny, "whole", sets);
  (void)whole.run();
  {
    Signals signals;
    WatchedRun run(tiny, "run", sets, &signals);
    run.trainer.at_step = [](int64_t step) {
      if (step == 3) ::raise(SIGTERM);
    };
    const TrainResult result = run.run();
    CHECK(result.interrupted_by == SIGTERM);
    CHECK(result.steps == 3);
  }
  CHECK(events_of(read_log(tiny.path("run/log.jsonl")), "interrupted").size() == 1);
  WatchedRun rest(tiny, "run", sets);
  CHECK(rest.recover() == 3);
  (void)rest.run();
  CHECK(rest.trainer.weights.back() == whole.trainer.weights.back());
  CHECK(metrics_of(rest.dir.path()) == metrics_of(whole.dir.path()));
}

TEST_CASE("signals: before the first step there is nothing to save, and that is no failure") {
  const TinyRun tiny;
  Signals signals;
  WatchedRun run(tiny, "run", {}, &signals);
  ::raise(SIGINT);
  const TrainResult result = run.run();
  CHECK(result.interrupted_by == SIGINT);
  CHECK(result.steps == 0);
  CHECK_FALSE(Checkpoints(run.dir.path()).newest().checkpoint);
}

TEST_CASE("signals: SIGHUP saves and the run goes on") {
  const TinyRun tiny;
  Signals signals;
  WatchedRun run(tiny, "run", {"trainer.eval_strategy=no", "trainer.save_total_limit=5"}, &signals);
  run.trainer.at_step = [](int64_t step) {
    if (step == 4) ::raise(SIGHUP);
  };
  CHECK(run.run().steps == 12);
  CHECK(std::filesystem::exists(run.dir.path("checkpoints/step-00000004/MANIFEST")));
}

}  // namespace mixtape::trainer
