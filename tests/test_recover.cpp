// A run that was stopped goes on with the same bits.
#include <doctest/doctest.h>

#include <cmath>
#include <filesystem>

#include "core/factory.h"
#include "tests/recorder.h"
#include "tools/trainer/log.h"
#include "tools/trainer/train.h"

namespace mixtape::trainer {
namespace {
namespace fs = std::filesystem;
using tests::contains;
using tests::error_of;
using tests::events_of;
using tests::metrics_of;
using tests::read_log;
using tests::slurp;
using tests::TempFolder;
using tests::TinyRun;
using tests::WatchedRun;

struct Killed {};

/// Runs in `name` and is gone after step `after`, as after kill -9: nothing is saved any more.
void kill_after(const TinyRun& tiny, const std::string& name, const std::vector<std::string>& sets, int64_t after) {
  WatchedRun run(tiny, name, sets);
  (void)run.recover();
  run.trainer.at_step = [&](int64_t step) {
    if (step == after) throw Killed();
  };
  CHECK_THROWS_AS((void)run.run(), Killed);
}

const std::vector<std::string> busy = {"trainer.gradient_accumulation_steps=2", "trainer.num_train_epochs=3",
                                       "trainer.save_steps=1", "trainer.warmup_ratio=0.4"};

std::vector<std::string> with(std::vector<std::string> sets, const std::vector<std::string>& more) {
  sets.insert(sets.end(), more.begin(), more.end());
  return sets;
}
#if !defined(__SANITIZE_THREAD__)  // under which there is one thread, whatever is asked for
TEST_CASE("recover: the number of threads is part of what decides the weights") {
  const TinyRun tiny;
  const config::Config config = tiny.config({"threads=0"});
  const auto at = [&](int threads) {
    kernels::set_thread_count(threads);
    return trainer::trajectory_of(config, "weights");
  };
  const trainer::Trajectory one = at(1);
  const std::vector<trainer::Change> changes = trainer::changes_between(one, at(3));
  kernels::set_thread_count(1);
  REQUIRE(changes.size() == 1);
  CHECK(trainer::text_of(changes) == "  threads: 1 -> 3");
  CHECK(trainer::changes_between(one, at(1)).empty());
}
#endif

}  // namespace

TEST_CASE("bug_B1, bug_B2: stopped anywhere, the steps after it are those of the unbroken run (F25)") {
  const TinyRun tiny(22);  // 6 batches, the last of 2 rows: windows of 2, 2, 2
  for (const std::string dtype : {"off", "bf16", "fp16"}) {
    const auto sets = with(busy, {"amp.dtype=" + dtype, "amp.init_scale=16777216", "amp.growth_interval=3"});
    WatchedRun whole(tiny, "whole-" + dtype, sets);
    (void)whole.run();
    REQUIRE(whole.trainer.steps.size() == 9);
    for (const int64_t stop : {2, 3, 5, 9}) {
      CAPTURE(dtype);
      CAPTURE(stop);
      const std::string name = message("cut-", dtype, stop);
      kill_after(tiny, name, sets, stop);
      WatchedRun rest(tiny, name, sets);
      CHECK(rest.recover() == stop - 1);  // step `stop` was done but not saved
      (void)rest.run();
      REQUIRE(std::ssize(rest.trainer.steps) == 10 - stop);
      for (size_t i = 0; i < rest.trainer.steps.size(); ++i) {
        const size_t at = i + static_cast<size_t>(stop) - 1;
        CHECK(rest.trainer.weights[i] == whole.trainer.weights[at]);
        CHECK(rest.trainer.moments[i] == whole.trainer.moments[at]);
        CHECK(rest.trainer.steps[i].lr == whole.trainer.steps[at].lr);
        CHECK(rest.trainer.steps[i].loss == whole.trainer.steps[at].loss);
        CHECK(rest.trainer.steps[i].loss_scale == whole.trainer.steps[at].loss_scale);
        CHECK(rest.trainer.steps[i].step == whole.trainer.steps[at].step);
      }
      CHECK(metrics_of(rest.dir.path()) == metrics_of(whole.dir.path()));
    }
  }
}

TEST_CASE("bug_B5: the counter of early stopping survives") {
  const TinyRun tiny;
  const std::vector<std::string> sets = {"optimizer.learning_rate=0", "trainer.num_train_epochs=9",
                                         "trainer.early_stopping_patience=3"};
  kill_after(tiny, "run", sets, 15);  // two evaluations, the second no better
  WatchedRun rest(tiny, "run", sets);
  CHECK(rest.recover() == 12);
  const TrainResult result = rest.run();
  CHECK(result.steps == 24);
  CHECK(result.best_step == 6);
  CHECK(result.stopped_early);
}

TEST_CASE("bug_B13: the log is cut back to the checkpoint and goes on without doubles; sums survive") {
  const TinyRun tiny;
  const std::vector<std::string> sets = {"trainer.save_steps=5"};
  WatchedRun whole(tiny, "whole", sets);
  const TrainResult all = whole.run();
  kill_after(tiny, "run", sets, 9);
  CHECK(events_of(read_log(tiny.path("run/log.jsonl")), "step").back()["step"] == 9);
  WatchedRun rest(tiny, "run", sets);
  CHECK(rest.recover() == 6);  // the best model so far is saved too
  const TrainResult result = rest.run();
  CHECK(result.tokens == all.tokens);
  CHECK(result.steps == 12);
  CHECK(result.seconds > 0);
  const auto log = read_log(tiny.path("run/log.jsonl"));
  CHECK(events_of(log, "resume").size() == 1);
  CHECK(events_of(log, "resume")[0]["step"] == 6);
  const auto steps = events_of(log, "step");
  REQUIRE(steps.size() == 12);
  for (size_t i = 0; i < 12; ++i) CHECK(steps[i]["step"] == i + 1);
  CHECK(events_of(log, "eval").size() == 3);  // val twice, test once
}

TEST_CASE("log: where it is cut") {
  const TempFolder folder;
  const std::string kept =
      "{\"event\":\"start\",\"steps\":9}\n{\"event\":\"step\",\"step\":1}\n{\"event\":\"step\",\"step\":2}\n"
      "{\"event\":\"eval\",\"step\":2,\"split\":\"val\"}\n"
      "{\"event\":\"checkpoint\",\"step\":2,\"kind\":\"state\",\"seconds\":1.5}\n";
  for (const std::string later :
       {"", "{\"event\":\"step\",\"step\":3}\n", "{\"event\":\"eval\",\"step\":2,\"split\":\"test\"}\n",
        "{\"event\":\"end\",\"steps\":2}\n", "{\"event\":\"step\",\"st",
        "nonsense\n{\"event\":\"step\",\"step\":1}\n"}) {
    const LogEnd end = end_of_log(folder.write("log", kept + later), 2, 2);
    CHECK(end.bytes == std::ssize(kept));
    CHECK(end.seconds == 1.5);
    cut_log(folder.path("log"), end);
    CHECK(slurp(folder.path("log")) == kept);
  }
  CHECK(end_of_log(folder.path("log"), 2, 0).bytes < std::ssize(kept));  // saved before that evaluation
  CHECK(end_of_log(folder.path("none"), 2, 2).bytes == 0);
}

TEST_CASE("bug_B10: best/ is the best of the checkpoint, whatever happened after it") {
  const TinyRun tiny;
  const std::vector<std::string> sets = {"trainer.num_train_epochs=4", "trainer.metric=loss"};
  WatchedRun whole(tiny, "whole", sets);
  (void)whole.run();
  kill_after(tiny, "run", sets, 8);
  const std::string best = tiny.path("run/best/model.safetensors");
  const std::string right = slurp(best);
  SUBCASE("gone") { fs::remove_all(tiny.path("run/best")); }
  SUBCASE("of a later step") {
    fs::copy_file(tiny.path("whole/best/model.safetensors"), best, fs::copy_options::overwrite_existing);
  }
  SUBCASE("cut") { fs::resize_file(best, 1000); }
  SUBCASE("as it was") {}
  WatchedRun rest(tiny, "run", sets);
  CHECK(rest.recover() == 6);
  CHECK(slurp(best) == right);
  (void)rest.run();
  CHECK(metrics_of(rest.dir.path()) == metrics_of(whole.dir.path()));
  CHECK(slurp(best) == slurp(tiny.path("whole/best/model.safetensors")));
}

TEST_CASE("trajectory: contents count, places do not") {
  const TinyRun tiny, other;
  const Trajectory here = trajectory_of(tiny.config(), "s");
  CHECK(changes_between(here, trajectory_of(other.config(), "s")).empty());
  CHECK(changes_between(here, trajectory_of(tiny.config({"trainer.logging_steps=7", "threads=2"}), "s")).empty());
  other.folder().write("data/train_labels.txt", "0\n");
  const auto changes = changes_between(
      here, trajectory_of(other.config({"optimizer.learning_rate=1e-6", "trainer.warmup_steps=3"}), "s"));
  const std::string text = text_of(changes);
  for (const std::string line : {"task.data_dir: ", "optimizer.learning_rate: 0.01 -> 1e-06",
                                 "trainer.warmup_steps: absent -> 3", "trainer.warmup_ratio: 0.1 -> absent"}) {
    CHECK(contains(text, line));
  }
  CHECK(changes.size() == 4);
  CHECK(hash_of(here) == hash_of(trajectory_of(tiny.config(), "s")));
}

TEST_CASE("bug_B11: a changed key is refused by name, or used and logged") {
  const TinyRun tiny;
  const std::vector<std::string> sets = {"trainer.save_steps=1"},
                                 changed = with(sets, {"optimizer.learning_rate=1e-6"});
  kill_after(tiny, "run", sets, 8);
  const std::string before = slurp(tiny.path("run/log.jsonl"));
  Progress progress(Verbosity::quiet);
  const auto error =
      error_of([&] { (void)train(tiny.config(changed), tiny.path("run"), {.recover = true}, progress); });
  REQUIRE(error);
  CHECK(error->code() == "E-RECOVER-CHANGED");
  CHECK(error->exit_code() == 2);
  CHECK(contains(error->what(), "optimizer.learning_rate: 0.01 -> 1e-06"));
  CHECK(slurp(tiny.path("run/log.jsonl")) == before);
  (void)train(tiny.config(changed), tiny.path("run"), {.recover = true, .with_changes = true}, progress);
  const auto log = read_log(tiny.path("run/log.jsonl"));
  CHECK(events_of(log, "change")[0]["key"] == "optimizer.learning_rate");
  CHECK(events_of(log, "step")[6]["lr"].get<double>() > 1e-3);
  CHECK(events_of(log, "step")[7]["lr"].get<double>() <= 1e-6);
  CHECK(contains(slurp(tiny.path("run/config.json")), "1e-06"));
}

TEST_CASE("recover: nothing there starts from the beginning; a finished run is left alone") {
  const TinyRun tiny;
  Progress progress(Verbosity::quiet);
  CHECK(train(tiny.config(), tiny.path("run"), {.recover = true}, progress).steps == 12);
  const std::string log = slurp(tiny.path("run/log.jsonl")), metrics = slurp(tiny.path("run/metrics.json"));
  CHECK(train(tiny.config({"trainer.seed=9"}), tiny.path("run"), {.recover = true}, progress).steps == 0);
  CHECK(slurp(tiny.path("run/log.jsonl")) == log);
  CHECK(slurp(tiny.path("run/metrics.json")) == metrics);
}

TEST_CASE("recover: a run without a complete checkpoint starts anew; one with damaged ones only is exit 4") {
  const TinyRun tiny;
  Progress progress(Verbosity::quiet);
  kill_after(tiny, "run", {}, 3);
  CHECK(train(tiny.config(), tiny.path("run"), {.recover = true}, progress).steps == 12);
  CHECK(events_of(read_log(tiny.path("run/log.jsonl")), "step").size() == 12);
  kill_after(tiny, "damaged", {}, 8);
  const std::string file = tiny.path("damaged/checkpoints/step-00000006/optimizer.safetensors");
  fs::resize_file(file, 5000);
  const auto error = error_of([&] { (void)train(tiny.config(), tiny.path("damaged"), {.recover = true}, progress); });
  REQUIRE(error);
  CHECK(error->exit_code() == 4);
  CHECK(contains(error->what(), file));
}

TEST_CASE("bug_B22: a run that diverges keeps its last good checkpoint") {
  const TinyRun tiny;
  const std::vector<std::string> sets = {"amp.max_consecutive_skips=3", "trainer.save_steps=1"};
  WatchedRun run(tiny, "run", sets);
  run.trainer.at_step = [&](int64_t step) {
    if (step == 5) assign(run.model->parameters()[0].tensor, full(run.model->parameters()[0].tensor.shape(), NAN));
  };
  const auto error = error_of([&] { (void)run.run(); });
  REQUIRE(error);
  CHECK(error->exit_code() == 20);
  const auto found = Checkpoints(run.dir.path()).newest();
  REQUIRE(found.checkpoint);
  CHECK(found.faults.empty());
  CHECK(events_of(read_log(run.dir.path("log.jsonl")), "diverged").size() == 1);
}

}  // namespace mixtape::trainer
