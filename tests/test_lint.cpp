// mixtape lint, and the same lines before a run: each trap alone, and none where there is none.
#include <doctest/doctest.h>

#include <algorithm>

#include "tests/recorder.h"
#include "tools/trainer/lint.h"

namespace mixtape::tests {
namespace {

struct Trap {
  std::string code, key;
  std::vector<std::string> sets;
  std::string origin = "--set";
};

const std::vector<Trap> traps = {
    {"W-LINT-NO-SCALE", "amp.loss_scale", {"amp.dtype=fp16", "amp.loss_scale=1"}},
    {"W-LINT-NO-SCALE", "amp.loss_scale", {"amp.dtype=fp16", "amp.loss_scale=2"}},
    {"W-LINT-NO-SCALE", "amp.loss_scale", {"amp.dtype=fp16", "amp.policy=apex_O3"}, "amp.policy apex_O3"},
    {"W-LINT-NO-SCALE", "amp.max_scale", {"amp.dtype=fp16", "amp.init_scale=2", "amp.max_scale=2"}},
    {"W-LINT-IDLE-SCALE", "amp.loss_scale", {"amp.dtype=fp16", "amp.loss_scale=1e30"}},
    {"W-LINT-IDLE-SCALE", "amp.init_scale", {"amp.dtype=fp16", "amp.init_scale=1"}},
    {"W-LINT-F32-PRODUCTS", "amp.policy", {"amp.dtype=bf16", "amp.policy=apex_O0"}},
    {"W-LINT-IDLE-SCALE", "amp.min_scale", {"amp.dtype=fp16", "amp.init_scale=1024", "amp.min_scale=1024"}},
    {"W-LINT-NO-CLIP", "trainer.max_grad_norm", {"amp.dtype=fp16", "trainer.max_grad_norm=0"}},
    {"W-LINT-F32-PRODUCTS", "amp.overrides.linear", {"amp.dtype=bf16", "amp.overrides={\"linear\": \"full\"}"}},
    {"W-LINT-PROBABILITIES",
     "amp.overrides.binary_cross_entropy",
     {"amp.dtype=bf16", "amp.overrides={\"binary_cross_entropy\": \"full\"}"}},
    {"W-LINT-SWALLOWED",
     "optimizer.learning_rate",
     {"amp.dtype=bf16", "amp.parameter_storage=low", "optimizer.learning_rate=2e-5"}},
    {"W-LINT-SHORT-WINDOW", "trainer.gradient_accumulation_steps", {"trainer.gradient_accumulation_steps=5"}},
    {"W-LINT-PADDING",
     "data.padding",
     {"data.padding=max_length", "tokenizer.max_length=64", "model.config.max_position_embeddings=64"}}};

// What stands on the way out of every trap.
const std::vector<std::vector<std::string>> sound = {
    {"amp.dtype=off"},
    {"amp.dtype=fp16"},
    {"amp.dtype=fp16", "amp.loss_scale=1024"},
    {"amp.dtype=fp16", "amp.init_scale=1024"},
    {"amp.dtype=bf16", "trainer.max_grad_norm=0"},
    {"amp.dtype=bf16", "amp.overrides={\"softmax\": \"full\"}"},
    {"amp.dtype=bf16", "amp.parameter_storage=bf16_kahan", "optimizer.learning_rate=2e-5"},
    {"amp.dtype=bf16", "amp.parameter_storage=low", "optimizer.learning_rate=1e-4"},
    {"trainer.gradient_accumulation_steps=4"},
    {"data.padding=max_length"},
    {"data.padding=packed", "tokenizer.max_length=64", "model.config.max_position_embeddings=64"}};

nlohmann::json warnings_of(const TinyRun& tiny, const std::vector<std::string>& sets) {
  const ProgramResult result = run_program("lint '" + tiny.config_path() + "' --json" + set_options(sets));
  CAPTURE(result.err);
  CHECK(result.exit_code == 0);
  return nlohmann::json::parse(result.out).at("warnings");
}

}  // namespace

TEST_CASE("lint: each trap is named alone, with its key, its value's place and its page") {
  const TinyRun tiny(32);  // eight batches of four
  for (const Trap& trap : traps) {
    CAPTURE(trap.code);
    const nlohmann::json found = warnings_of(tiny, trap.sets);
    REQUIRE(found.size() == 1);
    CHECK(found[0].at("code") == trap.code);
    CHECK(found[0].at("key") == trap.key);
    CHECK(found[0].at("origin") == trap.origin);
    for (const char* part : {"value", "cause", "remedy"}) CHECK(!found[0].at(part).get<std::string>().empty());
    CHECK(found[0].at("page").get<std::string>().starts_with("docs/lint.md#w-lint-"));
    const std::string page = slurp(MIXTAPE_SOURCE_DIR "/docs/lint.md");
    CHECK(contains(page, "\n## " + trap.code + "\n"));
  }
}

TEST_CASE("lint: a sound configuration has no warnings, and says so") {
  const TinyRun tiny(32);
  for (const auto& sets : sound) {
    CAPTURE(sets.back());
    CHECK(warnings_of(tiny, sets).empty());
  }
  CHECK(run_program("lint '" + tiny.config_path() + "' --set amp.dtype=off").out ==
        "nothing that is known to go wrong\n");
}

TEST_CASE("lint: an update is swallowed below half a step of the grid around a weight of 0.02") {
  const TinyRun tiny(32);
  const auto warns = [&](const std::string& dtype, double lr) {
    config::Config config = tiny.config({"amp.dtype=" + dtype, "amp.parameter_storage=low"});
    config.optimizer.learning_rate = lr;
    trainer::Progress progress(trainer::Verbosity::quiet);
    const data::Tokenizer tokenizer = trainer::make_tokenizer(config.tokenizer);
    return trainer::lint(config, trainer::read_task(config, tokenizer, progress)).size();
  };
  CHECK(warns("bf16", 0.999 * 0x1p-14) == 1);  // 0.02 lies between 2^-6 and 2^-5: seven digits end at 2^-13
  CHECK(warns("bf16", 1.001 * 0x1p-14) == 0);
  CHECK(warns("fp16", 0.999 * 0x1p-17) == 1);
  CHECK(warns("fp16", 1.001 * 0x1p-17) == 0);
}

TEST_CASE("lint: a run prints the same lines before it starts, and a dry run too") {
  const TinyRun tiny(32);
  for (const std::string dry : {"", " --dry-run"}) {
    const ProgramResult result = run_program("train '" + tiny.config_path() + "' -q -s '" + tiny.path("run" + dry) +
                                             "' --set amp.dtype=fp16 --set trainer.max_grad_norm=0 --set "
                                             "trainer.max_steps=1" +
                                             dry);
    CHECK(result.exit_code == 0);
    CHECK(contains(result.err, "warning W-LINT-NO-CLIP  trainer.max_grad_norm = 0 (--set): "));
    CHECK(result.err.find("W-LINT") == result.err.rfind("W-LINT"));
  }
}

}  // namespace mixtape::tests
