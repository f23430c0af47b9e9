// inspect scale: the timeline of made-up logs, of real runs, of interrupted and damaged ones.
#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "tests/svg_texts.h"
#include "tests/tiny_run.h"
#include "tools/inspect/collect.h"
#include "tools/inspect/scale.h"
#include "tools/trainer/train.h"

namespace mixtape::inspect {
namespace {
using nlohmann::json;
using tests::contains;
using tests::run_program;
using tests::slurp;
using tests::TinyRun;

/// A log as a run writes it: `scale_of` gives the scale of a step, `skipped` says whether it overflowed.
class MadeUpLog {
 public:
  void step(int64_t number, double scale, bool skipped = false) {
    updates_ += skipped ? 0 : 1;
    add(message(R"({"event":"step","step":)", number, R"(,"updates":)", updates_, R"(,"loss_scale":)",
                static_cast<int64_t>(scale), R"(,"outcome":")", skipped ? "skipped_overflow" : "applied", "\"}"));
  }
  void overflow(int64_t number, double scale, const char* more = "") {
    add(message(R"({"event":"overflow","step":)", number, R"(,"loss_scale":)", static_cast<int64_t>(scale),
                R"(,"outcome":"skipped_overflow","parameters":["bert.w","bert.v"])", more, "}"));
  }
  void eval(int64_t number, const char* loss) {
    add(message(R"({"event":"eval","step":)", number, R"(,"split":"val","loss":)", loss, "}"));
  }
  void add(const std::string& line) { text_ += line + "\n"; }
  const std::string& text() const { return text_; }

 private:
  std::string text_;
  int64_t updates_ = 0;
};

MadeUpLog eventful_log() {
  MadeUpLog log;
  log.add(R"({"event":"start","steps":400})");
  double scale = 65536;
  for (int64_t number = 1; number <= 400; ++number) {
    const bool skipped = number == 1 || number == 2 || number == 250;
    if (number == 100 || number == 300) scale *= 2;
    if (skipped) log.overflow(number, scale);
    if (number % 10 == 0) log.step(number, scale, skipped);
    if (skipped) scale /= 2;
    if (number % 200 == 0) log.eval(number, number == 200 ? "0.5" : "null");
    if (number == 330) log.add(R"({"event":"resume","step":330})");
  }
  log.add(
      R"({"event":"overflow","step":400,"loss_scale":32768,"outcome":"skipped_nonfinite_loss","parameters":["loss"]})");
  return log;
}

ScaleTimeline timeline_of(const std::string& text) {
  const tests::TempFolder folder;
  folder.write("log.jsonl", text);
  ScaleTimeline out;
  out.dir = "runs/mine";
  out.amp = "fp16";
  out.dynamic = true;
  read_scales(read_log_events(folder.path()), out);
  return out;
}

}  // namespace

TEST_CASE("inspect scale: growths, back-offs and skips of a log") {
  const ScaleTimeline run = timeline_of(eventful_log().text());
  CHECK(run.steps == 400);
  CHECK(run.updates == 39);
  REQUIRE(run.backoffs.size() == 3);
  CHECK(run.backoffs[0].after == 1);
  CHECK(run.backoffs[0].from == 65536);
  CHECK(run.backoffs[0].to == 32768);
  CHECK(run.backoffs[2].after == 250);
  REQUIRE(run.growths.size() == 2);
  CHECK(run.growths[0].after == 90);
  CHECK(run.growths[0].by == 100);
  CHECK(run.growths[0].to == 2 * run.growths[0].from);
  REQUIRE(run.skips.size() == 4);
  CHECK(run.skips[0].parameters == 2);
  CHECK(run.skips[0].first == "bert.w");
  CHECK(run.skips[3].outcome == "skipped_nonfinite_loss");
  CHECK(run.resumes == std::vector<int64_t>{330});
  REQUIRE(run.evaluations.size() == 2);
  CHECK(run.evaluations[0].scale == 32768);
  CHECK(run.evaluations[0].loss == 0.5);
  CHECK_FALSE(run.evaluations[1].loss);
}

TEST_CASE("inspect scale: what it prints of a log") {
  ScaleTimeline run = timeline_of(eventful_log().text());
  const std::string folder = MIXTAPE_SOURCE_DIR "/tests/golden/inspect/";
  CHECK(scale_text(run) == slurp(folder + "scale.txt"));
  run.evaluations[0].flushed = 0.0123;
  CHECK(contains(scale_text(run), "1.230 % of the activation gradients flushed to 0"));
  const json out = json::parse(scale_json(run).pretty());
  CHECK(out.at("points").size() == 44);
  CHECK(out.at("evaluations")[0].at("flushed_share") == 0.0123);
  CHECK(out.at("evaluations")[1].at("flushed_share").is_null());
}

TEST_CASE("inspect scale: attempts whose batches ran again are no skipped steps") {
  MadeUpLog log;
  for (const double scale : {65536.0, 32768.0}) log.overflow(1, scale, R"(,"attempt":1,"retried":true)");
  log.step(1, 16384);
  log.overflow(2, 16384);
  log.step(2, 16384, true);
  log.step(3, 8192);
  const std::string text = scale_text(timeline_of(log.text()));
  CHECK(contains(text, "3 steps, 0 growths, 3 back-offs, 1 skipped step, 2 attempts tried again\n"));
  CHECK(contains(text, "  skipped  x\n"));
  CHECK(contains(text, "    tried t\n"));
  CHECK(contains(text, "overflows:\n  step 1 at 2^16: 2 gradients not finite, bert.w first; tried again\n"));
}

TEST_CASE("inspect scale: logs that are empty, cut, damaged, of one step, of scales that are no powers of two") {
  CHECK(contains(scale_text(timeline_of("")), "no step stands in log.jsonl, or it is missing"));
  CHECK(contains(scale_text(timeline_of("{\"event\":\"start\",\"steps\":9}\n")), "no step"));
  MadeUpLog log;
  log.step(10, 65536);
  const ScaleTimeline cut = timeline_of(log.text() + "{\"event\":\"step\",\"step\":20,\"loss_sc");
  CHECK(cut.damaged == std::vector<int64_t>{2});
  CHECK(cut.points.size() == 1);
  CHECK(contains(scale_text(cut), "line 2 of log.jsonl is no event, and left out"));
  CHECK(timeline_of("\n\xff\n[1]\n7\n{}\n{\"event\":3}\n" + log.text()).damaged.size() == 6);
  MadeUpLog one;
  one.overflow(1, 1000);
  one.step(1, 500);
  const ScaleTimeline first = timeline_of(one.text());
  CHECK(first.steps == 1);
  CHECK(first.backoffs.size() == 1);
  CHECK(contains(scale_text(first), "1000 -> 500 after step 1, seen at step 1"));
  MadeUpLog far;
  far.step(1, 0x1p60);
  far.step(2, 1);
  const std::string tall = scale_text(timeline_of(far.text()));
  CHECK(std::count(tall.begin(), tall.end(), '\n') < 30);
}

TEST_CASE("inspect scale: the scale of an evaluation between two known steps") {
  MadeUpLog log;
  log.eval(3, "1");  // before anything is known
  log.overflow(21, 1024);
  log.eval(27, "1");  // after the back-off
  log.step(30, 512);
  log.eval(34, "1");
  log.step(40, 512);
  log.eval(45, "1");  // the scale grew before or after it
  log.step(50, 1024);
  log.eval(50, "1");
  log.eval(55, "1");
  log.overflow(60, 1024);
  log.eval(60, "1");
  log.eval(61, "1");  // nothing is known after the skip
  std::vector<std::optional<double>> scales;
  for (const ScaleAtEvaluation& at : timeline_of(log.text()).evaluations) scales.push_back(at.scale);
  CHECK(scales == std::vector<std::optional<double>>{{}, 512, 512, {}, 1024, 1024, 1024, {}});
}

TEST_CASE("inspect scale: many moves are cut in the text, and whole in JSON") {
  MadeUpLog log;
  for (int64_t number = 1; number <= 60; ++number) {
    log.step(number, number % 2 == 0 ? 1024 : 2048);
  }
  const ScaleTimeline run = timeline_of(log.text());
  CHECK(run.growths.size() + run.backoffs.size() == 59);
  CHECK(contains(scale_text(run), "more: --json has all"));
  CHECK(json::parse(scale_json(run).line()).at("backoffs").size() == 30);
}

TEST_CASE("inspect scale: of a run in fp16, with the share of flushed gradients at its evaluations") {
  const TinyRun tiny;
  trainer::Progress quiet(trainer::Verbosity::quiet);
  const std::string dir = tiny.path("run");
  const config::Config config = tiny.config({"amp.dtype=fp16", "amp.init_scale=1073741824", "amp.max_scale=1073741824",
                                             "amp.growth_interval=3", "trainer.num_train_epochs=3"});
  const trainer::TrainResult result = trainer::train(config, dir, {}, quiet);
  ScaleTimeline run = scale_timeline(dir);
  CHECK(run.amp == "fp16");
  CHECK(run.dynamic);
  CHECK(run.steps == result.steps);
  CHECK(run.updates == result.updates);
  CHECK(std::ssize(run.skips) == result.skipped);
  CHECK(result.skipped > 0);
  CHECK(run.backoffs.size() == run.skips.size());
  CHECK_FALSE(run.growths.empty());
  REQUIRE(run.evaluations.size() == 3);
  measure_flushed(run, quiet);
  for (const ScaleAtEvaluation& at : run.evaluations) {
    CAPTURE(at.step);
    REQUIRE(at.flushed);
    double direct = -1;
    (void)visit_steps(config, {at.step}, quiet, [&](const PausedStep& paused) {
      direct = collect(paused, {.what = {What::agrad}, .format = {}, .scale = {}}).groups.front().at_scale.lost();
    });
    CHECK(*at.flushed == direct);
    CHECK(*at.flushed < 0.01);
  }
}

TEST_CASE("inspect scale: from outside") {
  const TinyRun tiny;
  trainer::Progress quiet(trainer::Verbosity::quiet);
  const std::string low = tiny.path("low"), off = tiny.path("off");
  (void)trainer::train(tiny.config({"amp.dtype=bf16", "trainer.max_steps=3"}), low, {}, quiet);
  (void)trainer::train(tiny.config({"amp.dtype=fp16", "amp.loss_scale=128", "trainer.max_steps=3"}), off, {}, quiet);
  const auto bf16 = run_program("inspect scale '" + low + "' --flushed");
  CHECK(bf16.exit_code == 0);
  CHECK(contains(bf16.out, "needs no loss scale"));
  CHECK(contains(bf16.out, "0 back-offs"));
  const std::string svg = tiny.path("scale.svg");
  const auto fixed = run_program("inspect scale '" + off + "' --flushed --svg '" + svg + "'");
  CHECK(contains(fixed.out, "a fixed loss scale"));
  CHECK(contains(fixed.out, "flushed to 0"));
  CHECK(contains(slurp(svg), "<svg"));
  CHECK(tests::svg_label_fault(slurp(svg)) == "");
  const json out = json::parse(run_program("inspect scale '" + off + "' --json").out);
  CHECK(out.at("points")[0] == json({{"step", 1}, {"scale", 128}}));
  std::ofstream(off + "/log.jsonl", std::ios::app) << "{\"event\":\"st";
  CHECK(json::parse(run_program("inspect scale '" + off + "' --json").out).at("damaged_lines").size() == 1);
  std::filesystem::remove(off + "/log.jsonl");
  CHECK(contains(run_program("inspect scale '" + off + "'").out, "no step stands in log.jsonl, or it is missing"));
  CHECK(run_program("inspect scale '" + off + "' --svg '" + svg + "'").exit_code == 0);
}

TEST_CASE("inspect scale: what it refuses") {
  const TinyRun tiny;
  CHECK(contains(run_program("inspect scale '" + tiny.path("none") + "'").err, "E-RUN-DIR"));
  CHECK(contains(run_program("inspect scale '" + tiny.config_path() + "'").err, "E-RUN-DIR"));
  CHECK(run_program("inspect scale").exit_code == 2);
}

}  // namespace mixtape::inspect
