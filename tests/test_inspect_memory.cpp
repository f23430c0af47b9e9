// inspect memory: foreseen peaks beside those of runs, and dtypes beside each other.
#include <doctest/doctest.h>

#include <algorithm>
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

/// 203 short texts, of which these few fill all 16 places.
void make_long_texts_rare(const TinyRun& tiny, const std::vector<int>& long_ones) {
  std::string texts, labels;
  for (int i = 0; i < 203; ++i) {
    const bool is_long = std::find(long_ones.begin(), long_ones.end(), i) != long_ones.end();
    texts += is_long      ? "you are very , very , very , very , very , very rude !\n"
             : i % 2 == 0 ? "you !\n"
                          : "are kind !\n";
    labels += is_long ? "1\n" : "0\n";
  }
  tiny.folder().write("data/train_text.txt", texts);
  tiny.folder().write("data/train_labels.txt", labels);
}

json foreseen_plan(const TinyRun& tiny, const std::vector<std::string>& sets) {
  const ProgramResult result = run_program("inspect memory '" + tiny.config_path() + "' --json" + set_options(sets));
  CAPTURE(result.err);
  REQUIRE(result.exit_code == 0);
  return json::parse(result.out);
}

}  // namespace

TEST_CASE("inspect memory: the batches are those that the run makes, whatever their order and where long texts stand") {
  const TinyRun tiny;
  std::vector<std::vector<std::string>> settings;
  for (const std::string rows : {"64", "100"})
    for (const std::string padding : {"longest", "packed", "max_length"})
      for (const std::string bucketing : {"true", "false"})
        for (const std::string shuffle : {"true", "false"})
          settings.push_back({"trainer.per_device_train_batch_size=" + rows, "data.padding=" + padding,
                              "data.length_bucketing=" + bucketing, "data.shuffle=" + shuffle,
                              "trainer.num_train_epochs=3"});
  settings.push_back({"trainer.per_device_train_batch_size=32", "data.length_bucketing=false",
                      "trainer.gradient_accumulation_steps=3", "trainer.max_steps=5"});
  for (const std::vector<int>& long_ones : {std::vector<int>{3, 40}, {150}, {3, 70, 130, 202}, {202}}) {
    make_long_texts_rare(tiny, long_ones);
    for (const std::vector<std::string>& sets : settings) {
      CAPTURE(long_ones.front());
      CAPTURE(set_options(sets));
      const double measured = measured_peak(tiny, sets);
      CHECK(foreseen_plan(tiny, sets).at("peak_bytes") == doctest::Approx(measured).epsilon(0.05));
    }
  }
}

TEST_CASE("inspect memory: a batch that only the first step meets finds no optimizer states, and the plan says so") {
  const TinyRun tiny;
  make_long_texts_rare(tiny, {3, 5, 7, 9});
  const std::vector<std::string> once = {"trainer.per_device_train_batch_size=64", "data.shuffle=false",
                                         "data.length_bucketing=false", "trainer.num_train_epochs=1"};
  std::vector<std::string> twice = once;
  twice.back() = "trainer.num_train_epochs=2";
  const json one = foreseen_plan(tiny, once), two = foreseen_plan(tiny, twice);
  CHECK(one.at("first_step") == true);
  CHECK(two.at("first_step") == false);
  for (const json* plan : {&one, &two}) {
    CHECK(plan->at("rows") == 64);
    CHECK(plan->at("longest") == 16);
  }
  CHECK(one.at("peak_bytes") == doctest::Approx(measured_peak(tiny, once)).epsilon(0.02));
  CHECK(two.at("peak_bytes") == doctest::Approx(measured_peak(tiny, twice)).epsilon(0.02));
  const std::string words = "in the run's first step, which finds no optimizer states: no later one needs as much";
  const auto text = [&](const std::vector<std::string>& sets) {
    return run_program("inspect memory '" + tiny.config_path() + "'" + set_options(sets)).out;
  };
  CHECK(contains(text(once), words));
  CHECK(!contains(text(twice), words));
}

TEST_CASE("inspect memory: the peaks of thirty configurations are foreseen within 5 percent") {
  const TinyRun tiny;
  std::vector<std::vector<std::string>> settings = memory_settings();
  REQUIRE(settings.size() == 30);
  for (std::vector<std::string>& sets : settings) {
    sets.insert(sets.end(), {"data.shuffle=false", "trainer.num_train_epochs=1"});  // the longest texts meet
    CAPTURE(set_options(sets));
    const double measured = measured_peak(tiny, sets);
    const double foreseen = foreseen_plan(tiny, sets).at("peak_bytes");
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
