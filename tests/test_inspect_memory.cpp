// inspect memory: foreseen peaks beside those of runs, and dtypes beside each other.
#include <doctest/doctest.h>

#include <filesystem>

#include "tests/svg_texts.h"
#include "tests/tiny_run.h"
#include "tools/inspect/memory_table.h"

namespace mixtape::tests {
namespace {
using nlohmann::json;

/// What a run needed, by its own account.
double measured_peak(const TinyRun& tiny, const std::vector<std::string>& sets) {
  std::filesystem::remove_all(tiny.path("run"));
  const ProgramResult result =
      run_program("train '" + tiny.config_path() + "' -q -s '" + tiny.path("run") + "'" + set_options(sets));
  CAPTURE(result.err);
  REQUIRE(result.exit_code == 0);
  return json::parse(slurp(tiny.path("run/metrics.json"))).at("train").at("peak_bytes");
}

/// Three dtypes, three ways of going about a batch, three sizes, and what else changes what is held.
std::vector<std::vector<std::string>> memory_settings() {
  std::vector<std::vector<std::string>> out;
  for (const std::string dtype : {"off", "bf16", "fp16"}) {
    for (const std::string way :
         {"data.padding=longest", "data.padding=packed", "trainer.activation_checkpointing=true"})
      for (const std::string size : {"1", "4", "8"})
        out.push_back({"amp.dtype=" + dtype, way, "trainer.per_device_train_batch_size=" + size});
  }
  out.push_back({"amp.dtype=bf16", "amp.parameter_storage=bf16_kahan"});
  out.push_back({"amp.dtype=bf16", "amp.parameter_storage=bf16_stochastic"});
  out.push_back({"amp.dtype=off", "optimizer.type=sgd", "trainer.gradient_accumulation_steps=3"});
  return out;
}

}  // namespace

TEST_CASE("inspect memory: the peaks of thirty configurations are foreseen within 5 percent") {
  const TinyRun tiny;
  std::vector<std::vector<std::string>> settings = memory_settings();
  REQUIRE(settings.size() == 30);
  for (std::vector<std::string>& sets : settings) {
    sets.insert(sets.end(), {"data.shuffle=false", "trainer.num_train_epochs=1"});  // the longest texts meet
    CAPTURE(set_options(sets));
    const double measured = measured_peak(tiny, sets);
    const ProgramResult result = run_program("inspect memory '" + tiny.config_path() + "' --json" + set_options(sets));
    CAPTURE(result.err);
    REQUIRE(result.exit_code == 0);
    const double foreseen = json::parse(result.out).at("peak_bytes");
    MESSAGE("foreseen / measured: " << foreseen / measured);
    CHECK(foreseen == doctest::Approx(measured).epsilon(0.05));
  }
}

TEST_CASE("inspect memory --amp: masters stay, what backward needs is halved") {
  const TinyRun tiny;
  trainer::Progress quiet(trainer::Verbosity::quiet);
  const auto runs = inspect::measure_memory_of(tiny.config_path(), {}, {"off", "fp16", "bf16"}, quiet);
  REQUIRE(runs.size() == 3);
  const inspect::MemoryPlan &off = runs[0].plan, &fp16 = runs[1].plan, &bf16 = runs[2].plan;
  CHECK(off.copies == 0);
  CHECK(off.weights == 4 * off.parameters);
  for (const inspect::MemoryPlan* low : {&fp16, &bf16}) {
    CHECK(low->weights == off.weights);
    CHECK(low->copies > 0);
    CHECK(low->optimizer == off.optimizer);
    CHECK(low->all_saved() < 0.6 * static_cast<double>(off.all_saved()));
  }
  const std::vector<inspect::MemoryPart> parts = inspect::memory_parts(runs);
  REQUIRE(parts.size() == 5);
  CHECK(parts[1].name == "16-bit copies");
  CHECK(parts[1].bytes == std::vector<int64_t>{0, fp16.copies, bf16.copies});
  CHECK(parts[4].bytes[0] == off.all_saved());
}

TEST_CASE("inspect memory --amp: a table, a document, a picture, and what cannot be asked for") {
  const TinyRun tiny;
  const auto ask = [&](const std::string& more) {
    return run_program("inspect memory '" + tiny.config_path() + "' " + more);
  };
  const ProgramResult table = ask("--amp off,bf16");
  CHECK(table.exit_code == 0);
  for (const char* words : {"bytes a parameter", "16-bit copies", "peak", "bf16: weights with their copies take 1."})
    CHECK(contains(table.out, words));
  const json document = json::parse(ask("--amp off,bf16 --json").out);
  REQUIRE(document.at("runs").size() == 2);
  CHECK(document.at("runs").at(1).at("amp") == "bf16");
  CHECK(document.at("runs").at(0).at("peak_bytes") == json::parse(ask("--json").out).at("peak_bytes"));
  const std::string file = tiny.path("memory.svg");
  CHECK(ask("--amp off,fp16,bf16 --svg '" + file + "'").exit_code == 0);
  for (const char* words : {"<svg", "optimizer", "fp16"}) CHECK(contains(slurp(file), words));
  CHECK(tests::svg_label_fault(slurp(file)) == "");
  for (const std::string wrong : {"--amp f8", "--amp off,off", "--amp ,", "--svg a.svg"}) {
    CAPTURE(wrong);
    const ProgramResult result = ask(wrong);
    CHECK(result.exit_code == 2);
    CHECK(contains(result.err, "E-USAGE"));
  }
}

}  // namespace mixtape::tests
