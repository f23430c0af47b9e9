// inspect why-overflow on runs: steps are replayed bit by bit after the fact, and what cannot be is refused.
#include <doctest/doctest.h>

#include "tests/recorder.h"
#include "tools/inspect/overflow.h"
#include "tools/trainer/train.h"

namespace mixtape::inspect {
namespace {
using nlohmann::json;
using tests::contains;
using tests::error_of;
using tests::error_text;
using tests::events_of;
using tests::read_log;
using tests::TinyRun;

using RunSets = std::vector<std::string>;

trainer::Progress& quietly() {
  static trainer::Progress progress(trainer::Verbosity::quiet);
  return progress;
}

const RunSets skipping = {"amp.dtype=fp16", "amp.growth_interval=1", "amp.growth_factor=64",
                          "trainer.eval_strategy=steps", "trainer.eval_steps=5"};

RunSets run_sets(RunSets sets, const RunSets& more) {
  sets.insert(sets.end(), more.begin(), more.end());
  return sets;
}

std::string train_in(const TinyRun& tiny, const std::string& name, const RunSets& sets,
                     const trainer::TrainOptions& options = {}) {
  (void)trainer::train(tiny.config(sets), tiny.path(name), options, quietly());
  return tiny.path(name);
}

std::string why_text(const std::string& dir, std::optional<int64_t> step = {}) {
  return overflow_text(why_overflow(dir, step, quietly()));
}
}  // namespace

TEST_CASE("replay: weights and scale before each step are those of the run, from a checkpoint or from the start") {
  const TinyRun tiny;
  tests::WatchedRun run(tiny, "watched", skipping);
  (void)run.run();
  const std::string dir = train_in(tiny, "run", run_sets(skipping, {"trainer.save_total_limit=9"}));
  for (const int64_t step : {2, 6, 7, 12}) {
    for (const bool checkpoints : {true, false}) {
      if (!checkpoints) std::filesystem::rename(dir + "/checkpoints", dir + "/aside");
      Replay replay = Replay::of_run(dir, quietly());
      replay.go_to(step);
      if (!checkpoints) std::filesystem::rename(dir + "/aside", dir + "/checkpoints");
      CHECK(replay.from_checkpoint() == (checkpoints ? (step - 1) / 5 * 5 : 0));
      const auto at = static_cast<size_t>(step - 2);
      CHECK(trainer::hash_of_tensors(replay.model().parameters()) == run.trainer.weights[at]);
      CHECK(replay.loss_scale() == run.trainer.steps[at + 1].loss_scale);
      (void)replay.look({}, 1024);
      CHECK(trainer::hash_of_tensors(replay.model().parameters()) == run.trainer.weights[at]);
      replay.take({});
      CHECK(trainer::hash_of_tensors(replay.model().parameters()) == run.trainer.weights[at + 1]);
    }
  }
}

TEST_CASE("why-overflow: every skipped step of a run, also of one that was killed, went on, or tries again") {
  const TinyRun tiny;
  const auto skipped_in = [](const std::string& dir) {
    std::vector<int64_t> steps;
    for (const json& event : events_of(read_log(dir + "/log.jsonl"), "overflow")) steps.push_back(event["step"]);
    return steps;
  };
  const std::string dir = train_in(tiny, "run", skipping);
  const std::vector<int64_t> steps = skipped_in(dir);
  REQUIRE(steps.size() > 2);
  std::string last;
  const std::string before = tests::slurp(dir + "/log.jsonl");
  for (const int64_t step : steps) {
    last = why_text(dir, step);
    CHECK(contains(last, message("step ", step, " skipped: ")));
    CHECK(contains(last, "verdict: harmless back-off"));
  }
  CHECK(why_text(dir) == last);  // without a step it is the last one
  CHECK(tests::slurp(dir + "/log.jsonl") == before);

  // Killed: no end, the last line cut, the newest checkpoint half there.
  std::filesystem::remove(dir + "/metrics.json");
  std::filesystem::remove(dir + "/checkpoints/step-00000012/MANIFEST");
  std::filesystem::resize_file(dir + "/log.jsonl", before.size() - 5);
  CHECK(contains(why_text(dir, steps.back()), message("step ", steps.back(), " skipped: ")));
  (void)train_in(tiny, "run", skipping, {.recover = true});
  CHECK(skipped_in(dir) == steps);
  CHECK(contains(why_text(dir, steps.back()), message("step ", steps.back(), " skipped: ")));

  const std::string retried = train_in(tiny, "retried", run_sets(skipping, {"amp.retry_overflow=true"}));
  CHECK(contains(why_text(retried), " tried again: "));
  const std::vector<int64_t> tried = skipped_in(retried);
  REQUIRE(tried.back() > 1);  // the steps before it were applied, in however many attempts
  CHECK_FALSE(contains(why_text(retried), "finding its height"));
  CHECK(contains(why_text(retried), " tried again in the last "));
  CHECK(contains(tests::error_text([&] { (void)why_text(retried, tried.front() + 1000); }),
                 "skipped or tried again were "));
}

TEST_CASE("why-overflow: gradients that are accumulated, packed batches, checkpoints of activations") {
  const TinyRun tiny;
  for (const char* set : {"trainer.gradient_accumulation_steps=2", "data.padding=packed",
                          "trainer.activation_checkpointing=true", "data.padding=max_length"}) {
    CAPTURE(set);
    const std::string dir = train_in(tiny, set, run_sets(skipping, {set}));
    const Overflow found = why_overflow(dir, {}, quietly());
    REQUIRE(found.culprit);
    CHECK(found.culprit->kind == TensorKind::activation_gradient);
    CHECK(found.passes_at);
    int64_t counted = 0;
    for (const SampleShare& share : found.culprit->samples) {
      CHECK(share.row >= 0);
      CHECK(share.row < 24);
      counted += share.count;
    }
    CHECK(counted == found.culprit->inf + found.culprit->nan);
  }
}

TEST_CASE("why-overflow: a run that went on with other values is replayed from there on only") {
  const TinyRun tiny;
  const std::string dir = train_in(tiny, "run", skipping);
  std::filesystem::remove(dir + "/metrics.json");
  std::filesystem::remove_all(dir + "/checkpoints/step-00000012");
  (void)train_in(tiny, "run", run_sets(skipping, {"optimizer.weight_decay=0.02"}),
                 {.recover = true, .with_changes = true});
  int64_t early = 0, late = 0;
  for (const json& event : events_of(read_log(dir + "/log.jsonl"), "overflow")) {
    const int64_t step = event["step"];
    (step <= 10 ? early : late) = step;
  }
  REQUIRE(early > 0);
  CHECK(contains(error_text([&] { (void)why_text(dir, early); }), "E-REPLAY-RANGE"));
  if (late > 0) CHECK(contains(why_text(dir, late), message("step ", late, " skipped")));
}

TEST_CASE("why-overflow refuses what it cannot tell, and says why") {
  const TinyRun tiny;
  const std::string dir = train_in(tiny, "run", skipping), log = tests::slurp(dir + "/log.jsonl");
  const auto refusal = [&](std::optional<int64_t> step = {}) { return error_text([&] { (void)why_text(dir, step); }); };
  CHECK(contains(error_text([&] { (void)why_text(tiny.path("nowhere")); }), "E-RUN-DIR: "));
  CHECK(contains(error_text([&] { (void)why_text(dir + "/best"); }), "E-RUN-DIR: "));
  const auto events = events_of(read_log(dir + "/log.jsonl"), "step");
  for (const json& event : events) {
    if (event["outcome"] != "applied") continue;
    const std::string text = refusal(event["step"].get<int64_t>());
    CHECK(contains(text, "E-REPLAY-NOT-SKIPPED: "));
    CHECK(contains(text, "was not skipped; skipped were "));
    break;
  }
  CHECK(contains(refusal(999), "step 999 is none of its 12 steps"));
  const auto write = [](const std::string& path, const std::string& text) { std::ofstream(path) << text; };
  write(dir + "/log.jsonl", "{\"event\":\"start\"}\n");
  CHECK(contains(refusal(), "was skipped: nothing overflowed"));
  write(dir + "/log.jsonl", log + "rubbish\n");
  CHECK(contains(refusal(), "E-RUN-LOG: "));
  CHECK(contains(refusal(), "is no event"));
  write(dir + "/log.jsonl", log + "{\"event\":\"overflow\",\"step\":\"x\"}\n");
  CHECK(contains(refusal(), "has no step"));
  std::filesystem::remove(dir + "/log.jsonl");
  CHECK(contains(refusal(), "E-RUN-LOG: "));
  // The log tells of another scale, or of other parameters, than the step has.
  const std::string scale = "\"loss_scale\":";
  const size_t at = log.rfind(scale, log.rfind("\"parameters\":"));
  std::string tampered = log;
  write(dir + "/log.jsonl", tampered.replace(at + scale.size(), 1, "7"));
  CHECK(contains(refusal(), "E-REPLAY-DIFFERS: "));
  tampered = log;
  tampered.replace(tampered.rfind("classifier.weight"), 10, "classifies");
  write(dir + "/log.jsonl", tampered);
  CHECK(contains(refusal(), "E-REPLAY-DIFFERS: "));
  write(dir + "/log.jsonl", log);
  CHECK(contains(why_text(dir), "verdict: "));
}

TEST_CASE("why-overflow: a file that the run read and that is not what it was is named") {
  const TinyRun tiny;
  const std::string dir = train_in(tiny, "run", skipping);
  for (const std::string file : {"data/train_text.txt", "data/val_labels.txt", "vocab.txt"}) {
    const std::string text = tests::slurp(tiny.path(file));
    for (const bool gone : {true, false}) {
      std::filesystem::remove(tiny.path(file));
      if (!gone) tiny.folder().write(file, text + "0\n");
      const auto error = error_of([&] { (void)why_text(dir); });
      REQUIRE(error);
      CHECK(error->code() == "E-REPLAY-CHANGED");
      CHECK(contains(error->what(), file));
      CHECK(contains(error->what(), gone ? "it is gone" : "another file now"));
    }
    tiny.folder().write(file, text);
  }
  const std::string facts = tests::slurp(dir + "/run.json");
  const size_t at = facts.find("start_weights\": \"");
  REQUIRE(at != std::string::npos);
  const auto write = [&](const std::string& text) { std::ofstream(dir + "/run.json") << text; };
  write(std::string(facts).replace(at + 17, 4, "0000"));
  CHECK(contains(error_text([&] { (void)why_text(dir); }), "E-REPLAY-WEIGHTS: "));
  for (const std::string text : {"", "[]", "{}", "{\"xxh3_128\": 3"}) {
    write(text);
    CHECK(contains(error_text([&] { (void)why_text(dir); }), "E-RUN-DIR: "));
  }
  std::filesystem::remove(dir + "/run.json");
  CHECK(contains(error_text([&] { (void)why_text(dir); }), "E-RUN-DIR: "));
}

TEST_CASE("why-overflow from outside: the page and its JSON") {
  const TinyRun tiny;
  const std::string dir = train_in(tiny, "run", {"amp.dtype=fp16", "amp.init_scale=16777216", "trainer.max_steps=9"});
  const tests::ProgramResult page = tests::run_program("inspect why-overflow '" + dir + "' --step 2");
  CAPTURE(page.err);
  CHECK(page.exit_code == 0);
  CHECK(page.out == tests::slurp(MIXTAPE_SOURCE_DIR "/tests/golden/inspect/why_overflow.txt"));
  const tests::ProgramResult result = tests::run_program("inspect why-overflow '" + dir + "' --step 2 --json");
  const json page_json = json::parse(result.out);
  CHECK(page_json["step"] == 2);
  CHECK(page_json["loss_scale"] == 8388608);
  CHECK(page_json["next_loss_scale"] == 4194304);
  CHECK(page_json["outcome"] == "skipped_overflow");
  CHECK(page_json["culprit"]["op"] == "cast.backward");
  CHECK(page_json["culprit"]["scope"] == "loss");
  CHECK(page_json["culprit"]["largest"] == 65504);
  CHECK(page_json["culprit"]["unscaled"].get<double>() * 8388608 == page_json["culprit"]["true_value"]);
  CHECK(page_json["verdict"] == "harmless back-off");
  CHECK(page_json["at_start"] == true);
  CHECK(page_json["skips"] == 2);
  CHECK(tests::run_program("inspect why-overflow '" + dir + "' --step 0").exit_code == 2);
  CHECK(tests::run_program("inspect why-overflow '" + dir + "' --step 9").exit_code == 2);
  CHECK(tests::run_program("inspect why-overflow '" + tiny.path("none") + "'").exit_code == 4);
  CHECK(tests::run_program("inspect why-overflow").exit_code == 2);
}

}  // namespace mixtape::inspect
