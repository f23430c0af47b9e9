// inspect speed: where the time of a step goes in each dtype, and the sentence that is made of it.
#include <doctest/doctest.h>

#include "tests/tiny_run.h"
#include "tools/inspect/amps.h"
#include "tools/inspect/speed.h"

namespace mixtape::inspect {
namespace {
using nlohmann::json;
using tests::contains;
using tests::error_text;
using tests::run_program;
using tests::TinyRun;

Speed speed_of_tiny(const TinyRun& tiny, const std::string& amps, const std::vector<std::string>& sets = {}) {
  trainer::Progress progress(trainer::Verbosity::quiet);
  return measure_speed(tiny.config_path(), sets, parse_amps(amps), progress);
}

/// A run whose figures a verdict can be told from.
SpeedRun invented(const std::string& amp, double seconds, double products, int64_t cast_bytes = 0) {
  SpeedRun run;
  run.amp = amp;
  run.seconds = seconds;
  run.class_seconds[0] = products * seconds;
  run.class_seconds[1] = (1 - products) * seconds;
  run.flops_low = amp == "off" ? 0 : 1e9;
  run.flops_wide = amp == "off" ? 1e9 : 0;
  run.bytes = 1000;
  run.cast_bytes = cast_bytes;
  run.rows = 4;
  run.tokens = 61;
  return run;
}
}  // namespace

TEST_CASE("speed: classes add up to the step, and products run in the dtype that was asked for") {
  const TinyRun tiny;
  const Speed speed = speed_of_tiny(tiny, "off,bf16,fp16");
  REQUIRE(speed.runs.size() == 3);
  CHECK(speed.verdicts.size() == 2);
  for (const SpeedRun& run : speed.runs) {
    CAPTURE(run.amp);
    double sum = 0;
    for (const double seconds : run.class_seconds) {
      CHECK(seconds >= 0);
      sum += seconds;
    }
    CHECK(sum == doctest::Approx(run.seconds).epsilon(1e-9));
    CHECK(run.share(WorkClass::products) > 0);
    CHECK(run.share(WorkClass::optimizer) > 0);
    CHECK(run.low_share() == (run.amp == "off" ? 0 : 1));
    CHECK(run.flops_wide + run.flops_low == speed.runs[0].flops_wide);
    CHECK(run.rows == 4);
    CHECK((run.cast_bytes > 0) == (run.amp != "off"));
    CHECK(run.cast_cause.empty());
  }
}

TEST_CASE("speed: the override that makes the casts is named") {
  const TinyRun tiny;
  const Speed plain = speed_of_tiny(tiny, "bf16");
  const Speed full = speed_of_tiny(
      tiny, "bf16", {R"(amp.overrides={"layer_norm": "full", "dropout": "keep", "cross_entropy": "full"})"});
  CHECK(full.runs[0].cast_cause == "layer_norm is overridden to full");
  CHECK(full.runs[0].cause_bytes > 0);
  CHECK(full.runs[0].cast_share() > plain.runs[0].cast_share());
}

TEST_CASE("speed: verdicts say whether 16 bits pay, and what stands in the way") {
  const SpeedRun off = invented("off", 1, 0.8);
  const SpeedMachine with = {.native_bf16 = true}, without = {};
  CHECK(speed_verdict(off, invented("bf16", 0.5, 0.8), with) == "bf16 pays: 2.00 times as fast as off");
  CHECK(
      speed_verdict(off, invented("bf16", 1, 0.39), with) ==
      "bf16 does not pay (1.00 times as fast as off): 61 % of the time is in ops that move memory: batch 4 (61 tokens) "
      "is too small");
  CHECK(contains(speed_verdict(off, invented("bf16", 1, 0.8), without),
                 "this CPU multiplies bf16 through f32: no instruction"));
  CHECK_FALSE(contains(speed_verdict(off, invented("bf16", 1, 0.8), with), "no instruction"));
  CHECK(contains(speed_verdict(off, invented("fp16", 1, 0.8), with), "fp16 on the CPU is storage"));
  SpeedRun casts = invented("bf16", 1, 0.8, 230);
  CHECK(contains(speed_verdict(off, casts, with), "casts move 23 % of the bytes"));
  casts.cast_cause = "layer_norm is overridden to full";
  CHECK(contains(speed_verdict(off, casts, with), "casts move 23 % of the bytes: layer_norm is overridden to full"));
  SpeedRun wide = invented("bf16", 1, 0.8);
  std::swap(wide.flops_low, wide.flops_wide);
  CHECK(contains(speed_verdict(off, wide, with), "no product runs in 16 bits"));
  CHECK(contains(speed_verdict(off, invented("bf16", 1, 0.8), with), "products take 80 % of the time"));
}

TEST_CASE("speed: lists of dtypes") {
  CHECK(parse_amps("off") == std::vector<std::string>{"off"});
  CHECK(parse_amps("fp32,fp16") == std::vector<std::string>{"off", "fp16"});
  for (const char* list : {"", "off,", "fp8", "off,off", "off bf16", "fp32,off"}) {
    CAPTURE(list);
    CHECK(contains(error_text([&] { (void)parse_amps(list); }), "E-USAGE: --amp "));
  }
}

TEST_CASE("speed from outside: text, JSON, errors") {
  const TinyRun tiny;
  const std::string base = "inspect speed '" + tiny.config_path() + "' ";
  const tests::ProgramResult page = run_program(base);
  CAPTURE(page.err);
  CHECK(page.exit_code == 0);
  for (const char* word :
       {"amp off", "amp bf16", "products (GEMM)", "optimizer", "waiting", "by casts", "verdict: bf16 "}) {
    CHECK(contains(page.out, word));
  }
  const json result = json::parse(run_program(base + "--amp fp16 --json").out);
  CHECK(result["runs"].size() == 1);
  CHECK(result["runs"][0]["classes"].size() == 5);
  CHECK(result["verdicts"].empty());
  CHECK(run_program(base + "--amp int8").exit_code == 2);
  CHECK(run_program("inspect speed /nowhere.json").exit_code == 2);
  CHECK(run_program(base + "--set amp.dtyp=1").exit_code == 2);
}

}  // namespace mixtape::inspect
