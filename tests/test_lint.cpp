// mixtape lint, and the same lines before a run: each trap alone, and none where there is none.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <tuple>

#include "core/factory.h"
#include "data/safetensors.h"
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
    {"W-LINT-SWALLOWED",
     "optimizer.learning_rate",
     {"amp.dtype=bf16", "amp.policy=apex_O3", "optimizer.learning_rate=1e-3"}},
    {"W-LINT-SWALLOWED",
     "optimizer.learning_rate",
     {"amp.dtype=bf16", "amp.parameter_storage=low", "optimizer.type=sgd", "optimizer.learning_rate=1e-3"}},
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
    {"amp.dtype=bf16", "amp.policy=apex_O3", "optimizer.learning_rate=1e-2"},
    {"amp.dtype=bf16", "amp.parameter_storage=low", "optimizer.type=sgd", "optimizer.learning_rate=1e-2"},
    {"amp.dtype=bf16", "amp.parameter_storage=low", "optimizer.type=sgd", "optimizer.learning_rate=1e-3",
     "trainer.max_grad_norm=0"},
    {"amp.dtype=bf16", "amp.policy=apex_O3", "amp.parameter_storage=f32", "optimizer.learning_rate=1e-5"},
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

namespace {

/// "" or the cause that stands in the one warning.
std::string swallowed(const TinyRun& tiny, const std::vector<std::string>& sets, double lr) {
  config::Config config = tiny.config(sets);
  config.optimizer.learning_rate = lr;
  trainer::Progress progress(trainer::Verbosity::quiet);
  const data::Tokenizer tokenizer = trainer::make_tokenizer(config.tokenizer);
  for (const trainer::LintWarning& found : trainer::lint(config, trainer::read_task(config, tokenizer, progress)))
    if (found.code == "W-LINT-SWALLOWED") return found.cause;
  return "";
}

/// Of a finished run: its norm weights, and how many of these are still 1.
std::pair<int64_t, int64_t> norms_at_one(const std::string& dir) {
  std::string latest = slurp(dir + "/latest");
  latest.pop_back();
  std::pair<int64_t, int64_t> out;
  const auto file = data::SafeTensorsFile::open(dir + "/" + latest + "/model.safetensors");
  for (const data::TensorEntry& entry : file.tensors()) {
    if (!entry.name.ends_with("LayerNorm.weight")) continue;
    for (const double value : to_vector(file.read(entry))) ++out.first, out.second += value == 1 ? 1 : 0;
  }
  return out;
}

}  // namespace

TEST_CASE("lint: an update of AdamW is swallowed below half a step of the grid around a weight of 0.02, or of 1") {
  const TinyRun tiny(32);
  const std::vector<std::string> bf16 = {"amp.dtype=bf16", "amp.parameter_storage=low"},
                                 fp16 = {"amp.dtype=fp16", "amp.parameter_storage=low"},
                                 norms = {"amp.dtype=bf16", "amp.policy=apex_O3"};
  CHECK(!swallowed(tiny, bf16, 0.999 * 0x1p-14).empty());  // 2^-6 < 0.02 < 2^-5: seven digits end at 2^-13
  CHECK(swallowed(tiny, bf16, 1.001 * 0x1p-14).empty());
  CHECK(!swallowed(tiny, fp16, 0.999 * 0x1p-17).empty());
  CHECK(swallowed(tiny, fp16, 1.001 * 0x1p-17).empty());
  // Below 1 the grid is 2^-8 wide: half of that, and only where the policy stores norms in 16 bits.
  CHECK(contains(swallowed(tiny, norms, 0.999 * 0x1p-9),
                 "where a norm weight of 1 does not feel an update below 0.00195"));
  CHECK(swallowed(tiny, norms, 1.001 * 0x1p-9).empty());
  CHECK(contains(swallowed(tiny, norms, 2e-5), "where a weight of 0.02 does not feel an update below 6.10"));
  CHECK(contains(swallowed(tiny, norms, 2e-5), " and a norm weight of 1 does not feel an update below 0.00195"));
  CHECK(!contains(swallowed(tiny, bf16, 2e-5), "norm weight"));
}

TEST_CASE("lint: of SGD the clipped norm bounds how many weights can move; without one nothing is known") {
  const TinyRun tiny(32);
  std::vector<std::string> sets = {"amp.dtype=bf16", "amp.policy=apex_O3", "optimizer.type=sgd",
                                   "optimizer.weight_decay=0", "trainer.max_grad_norm=2"};
  // 2 layers of 16·(4·16 + 2·32) weights; 2·lr/2^-14 squared are half of these, or 2·lr/2^-9 squared half of 5·16.
  const double half = std::sqrt(2048.0) * 0x1p-15, half_of_norms = std::sqrt(40.0) * 0x1p-10;
  CHECK(contains(swallowed(tiny, sets, 0.999 * half), " of the 4096 weights and "));
  CHECK(contains(swallowed(tiny, sets, half / 64),
                 "clipped to a norm of 2 let at most 0 of the 4096 weights and 0 of "
                 "the 80 norm weights of the layers move in a step"));
  CHECK(contains(swallowed(tiny, sets, 1.001 * half), "let at most 2 of the 80 norm weights of the layers move"));
  CHECK(!swallowed(tiny, sets, 0.999 * half_of_norms).empty());
  CHECK(swallowed(tiny, sets, 1.001 * half_of_norms).empty());
  sets.back() = "trainer.max_grad_norm=0";
  CHECK(swallowed(tiny, sets, half / 64).empty());
  // The decay of a step, rate · 0.5 · 0.02, is an update too.
  sets = {"amp.dtype=bf16", "amp.parameter_storage=low", "optimizer.type=sgd", "optimizer.weight_decay=0.5"};
  CHECK(swallowed(tiny, sets, 0x1p-14 / 0.0099).empty());
}

TEST_CASE("lint: what a warned run does to its weights is what the warning says") {
  const TinyRun tiny(32);
  const auto run = [&](const std::string& name, std::vector<std::string> sets) {
    sets.insert(sets.end(), {"amp.dtype=bf16", "amp.policy=apex_O3"});
    const ProgramResult result =
        run_program("train '" + tiny.config_path() + "' -q -s '" + tiny.path(name) + "'" + set_options(sets));
    CHECK(result.exit_code == 0);
    const std::vector<nlohmann::json> steps = events_of(read_log(tiny.path(name) + "/log.jsonl"), "step");
    const auto [all, at_one] = norms_at_one(tiny.path(name));
    CHECK(all == 80);
    return std::tuple(contains(result.err, "W-LINT-SWALLOWED"), at_one, steps.back().at("lost_updates").get<double>());
  };
  const auto [norms_warned, norms_still, norms_lost] = run("norms", {"optimizer.learning_rate=5e-4"});
  CHECK(norms_warned);
  CHECK(norms_still == 80);
  const auto [warned, still, lost] = run("sound", {"optimizer.learning_rate=1e-2"});
  CHECK_FALSE(warned);
  CHECK(still < 80);
  const auto [sgd_warned, sgd_still, sgd_lost] = run("sgd", {"optimizer.type=sgd", "optimizer.learning_rate=1e-3"});
  CHECK(sgd_warned);
  CHECK(sgd_still == 80);
  CHECK(sgd_lost > 0.5);
  CHECK(lost < sgd_lost);
  CHECK(norms_lost < sgd_lost);
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
