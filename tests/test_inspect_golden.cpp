// What the verbs of inspect print, word for word; numbers as near as another engine's sums let them be.
#include <doctest/doctest.h>

#include <fstream>

#include "tests/golden.h"
#include "tests/tiny_run.h"
#include "tools/inspect/speed.h"

namespace mixtape::inspect {
namespace {
using tests::run_program;
using tests::slurp;
using tests::TinyRun;

/// When it changes on purpose: MIXTAPE_NEW_GOLDEN=1 build/release/bin/mixtape_tests -sf='*test_inspect_golden.cpp'
std::string inspect_golden_fault(const std::string& file, const std::string& got) {
  const std::string path = MIXTAPE_SOURCE_DIR "/tests/golden/inspect/" + file;
  if (std::getenv("MIXTAPE_NEW_GOLDEN") != nullptr) std::ofstream(path) << got;
  return tests::text_fault(slurp(path), got, 0.3, 1e-4);
}

struct InspectGolden {
  const char *verb, *options, *file;
};
constexpr InspectGolden inspect_goldens[] = {
    {"ledger", "--set amp.dtype=fp16", "ledger.txt"},
    {"ledger", "--set amp.dtype=bf16 --composed --errors", "ledger_errors.txt"},
    {"memory", "--set amp.dtype=bf16", "memory.txt"},
    {"memory", "--amp off,bf16,fp16", "memory_amp.txt"},
    {"compare", "--b fp16 --steps 3", "compare.txt"},
};
}  // namespace

TEST_CASE("inspect: what each verb prints of a configuration is what its golden file holds") {
  const TinyRun tiny;
  for (const InspectGolden& golden : inspect_goldens) {
    const std::string command =
        std::string("inspect ") + golden.verb + " '" + tiny.config_path() + "' " + golden.options;
    CAPTURE(command);
    const tests::ProgramResult result = run_program(command);
    CHECK(result.exit_code == 0);
    std::string text = result.out;
    for (size_t at = 0; (at = text.find(tiny.config_path())) != std::string::npos;) {
      text.replace(at, tiny.config_path().size(), "CONFIG");
    }
    CHECK(inspect_golden_fault(golden.file, text) == "");
  }
}

TEST_CASE("inspect speed: the page of two invented steps is what its golden file holds") {
  SpeedRun off;
  off.amp = "off";
  off.steps = 5;
  off.seconds = 0.25;
  const double shares[work_classes] = {0.6, 0.2, 0, 0.15, 0.05};
  for (int i = 0; i < work_classes; ++i) off.class_seconds[i] = shares[i] * off.seconds;
  off.flops_wide = 12e9;
  off.bytes = 800'000'000;
  off.rows = 16;
  off.tokens = 1024;
  SpeedRun low = off;
  low.amp = "bf16";
  low.seconds = 0.2;
  const double low_shares[work_classes] = {0.4, 0.25, 0.1, 0.15, 0.1};
  for (int i = 0; i < work_classes; ++i) low.class_seconds[i] = low_shares[i] * low.seconds;
  std::swap(low.flops_low, low.flops_wide);
  low.bytes = 500'000'000;
  low.cast_bytes = 120'000'000;
  low.cast_cause = "layer_norm is overridden to full";
  low.cause_bytes = 90'000'000;
  const Speed speed{.runs = {off, low}, .verdicts = {speed_verdict(off, low, {.native_bf16 = true})}};
  CHECK(inspect_golden_fault("speed.txt", speed_text(speed)) == "");
}

}  // namespace mixtape::inspect
