// Runs of the program on the tiny data: what is refused before them, how they go on, and what is asked of them later.
#include <doctest/doctest.h>

#include <filesystem>
#include <sstream>

#include "tests/tiny_run.h"

namespace mixtape::tests {
namespace {

ProgramResult train(const TinyRun& tiny, const std::vector<std::string>& sets, const std::string& more = "") {
  return run_program("train '" + tiny.config_path() + "' -s '" + tiny.path("run") + "'" + set_options(sets) + more);
}

}  // namespace

TEST_CASE("rehearsal: rules that an op of the model refuses are exit 2 and leave no directory") {
  const TinyRun tiny;
  const struct {
    std::string dtype, set, words;
  } faults[] = {{"bf16", "amp.overrides.masked_softmax=banned", "masked_softmax: refused under autocast"},
                {"bf16", "amp.overrides.dropout=banned", "amp.overrides dropout = banned"},
                {"bf16", "amp.overrides.linear=banned", "linear"},
                {"bf16", "amp.overrides.linear=keep", "linear"},
                {"bf16", "amp.overrides.bce_with_logits=keep", "bce_with_logits"},
                {"fp16", "amp.overrides.bce_with_logits=low", "the loss would be f16"},
                {"bf16", "amp.overrides.bce_with_logits=low", "the loss would be bf16"}};
  for (const auto& fault : faults) {
    for (const char* more : {"", " --dry-run"}) {
      CAPTURE(fault.set);
      const ProgramResult result = train(tiny, {"amp.dtype=" + fault.dtype, fault.set}, more);
      CHECK(result.exit_code == 2);
      CHECK(contains(result.err, "E-POLICY-MODEL"));
      CHECK(contains(result.err, fault.words));
      CHECK(!std::filesystem::exists(tiny.path("run")));
    }
  }
}

TEST_CASE("rehearsal: an override of an op that never runs is told, one that a fused row absorbs is not") {
  const TinyRun tiny;
  const auto told = [&](const std::string& set) {
    const ProgramResult result = train(tiny, {"amp.dtype=bf16", set}, " --dry-run");
    CAPTURE(result.err);
    CHECK(result.exit_code == 0);
    return contains(result.err, "W-POLICY");
  };
  CHECK(told("amp.overrides.softmax=full"));
  CHECK(!told("amp.overrides.masked_softmax=full"));
  CHECK(!told("amp.overrides.gelu=full"));
  CHECK(!told("amp.overrides.gelu=keep"));  // its own rule: the fused row stays
}

TEST_CASE("config show and explain print what a model's directory decides") {
  const TinyRun tiny;
  REQUIRE(train(tiny, {"model.pooling=pooler", "model.head=softmax", "trainer.max_steps=1"}).exit_code == 0);
  const std::string set = set_options({"model.pretrained=" + tiny.path("run/best")});
  tiny.folder().write("plain.json",
                      R"({"task": {"data_dir": "data"}, "tokenizer": {"max_length": 16}, "amp": {"dtype": "off"}})");
  const std::string config = "'" + tiny.path("plain.json") + "'";
  const std::string shown = run_program("config show " + config + set).out;
  const auto line = [&](const std::string& key) {
    const size_t at = shown.find("\n" + key + " = ");
    return at == std::string::npos ? "" : shown.substr(at + 1, shown.find('\n', at + 1) - at - 1);
  };
  CHECK(contains(line("model.pooling"), "\"pooler\""));
  CHECK(contains(line("model.pooling"), "model.pretrained"));
  CHECK(contains(line("model.head"), "\"softmax\""));
  CHECK(contains(line("model.config.hidden_size"), "16"));
  CHECK(contains(line("model.config.hidden_size"), "model.pretrained"));
  const std::string explained = run_program("config explain " + config + " model.config.hidden_size" + set).out;
  CHECK(contains(explained, "16  (model.pretrained)"));
}

#if !defined(__SANITIZE_THREAD__)  // under which there is one thread, whatever is asked for
TEST_CASE("a run goes on with the number of threads that it began with, or says what changed") {
  const TinyRun tiny;
  REQUIRE(train(tiny, {"trainer.max_steps=4", "trainer.save_steps=2", "threads=1"}).exit_code == 0);
  std::filesystem::remove(tiny.path("run/metrics.json"));
  const std::vector<std::string> two = {"trainer.max_steps=4", "trainer.save_steps=2", "threads=2"};
  const ProgramResult refused = train(tiny, two, " --recover");
  CHECK(refused.exit_code == 2);
  CHECK(contains(refused.err, "threads: 1 -> 2"));
  CHECK(train(tiny, two, " --recover --recover-with-changes").exit_code == 0);
}
#endif

TEST_CASE("a finished run whose scores or best model are damaged is finished again") {
  const TinyRun tiny;
  const std::vector<std::string> sets = {"trainer.max_steps=4", "trainer.save_steps=2"};
  REQUIRE(train(tiny, sets).exit_code == 0);
  const std::string model = slurp(tiny.path("run/best/model.safetensors"));
  CHECK(contains(train(tiny, sets, " --recover").err, "the run is finished"));
  SUBCASE("metrics.json is empty") { tiny.folder().write("run/metrics.json", ""); }
  SUBCASE("the model is cut") { tiny.folder().write("run/best/model.safetensors", model.substr(0, model.size() / 2)); }
  SUBCASE("the model is gone") { std::filesystem::remove(tiny.path("run/best/model.safetensors")); }
  const ProgramResult again = train(tiny, sets, " --recover");
  CAPTURE(again.err);
  CHECK(again.exit_code == 0);
  CHECK(!contains(again.err, "the run is finished"));
  CHECK(slurp(tiny.path("run/best/model.safetensors")) == model);
  CHECK(contains(slurp(tiny.path("run/metrics.json")), "macro_f1"));
}

TEST_CASE("a lost log is told when a run goes on") {
  const TinyRun tiny;
  const std::vector<std::string> sets = {"trainer.max_steps=4", "trainer.save_steps=2"};
  REQUIRE(train(tiny, sets).exit_code == 0);
  std::filesystem::remove(tiny.path("run/metrics.json"));
  tiny.folder().write("run/log.jsonl", "\x01 no event \x02\n");
  const ProgramResult again = train(tiny, sets, " --recover");
  CHECK(again.exit_code == 0);
  CHECK(contains(again.err, "W-LOG"));
}

TEST_CASE("predict and evaluate compute in another precision when asked") {
  const TinyRun tiny;
  REQUIRE(train(tiny, {"amp.dtype=bf16", "trainer.max_steps=6"}).exit_code == 0);
  const auto predicted = [&](const std::string& more) {
    const ProgramResult result = run_program("predict '" + tiny.path("run") + "' -" + more, "you are rude today !\n");
    CHECK(result.exit_code == 0);
    return result.out;
  };
  CHECK(predicted("") == predicted(" --dtype bf16"));
  CHECK(predicted("") != predicted(" --dtype off"));
  CHECK(run_program("evaluate '" + tiny.path("run") + "' --dtype off").exit_code == 0);
  CHECK(run_program("predict '" + tiny.path("run") + "' - --dtype f8").exit_code == 2);
}

TEST_CASE("predict: lines of a file go through the model together, and get what each gets alone") {
  const TinyRun tiny;
  REQUIRE(train(tiny, {"trainer.max_steps=6"}).exit_code == 0);
  std::string texts;
  for (int i = 0; i < 70; ++i) {
    texts += i % 7 == 0 ? "\n" : "you are " + std::string(i % 3 == 0 ? "very rude" : "kind") + " today !\n";
  }
  const auto scores = [&](const std::string& arguments, const std::string& input) {
    const ProgramResult result = run_program("predict '" + tiny.path("run") + "' " + arguments, input);
    CHECK(result.exit_code == 0);
    std::vector<double> all;
    std::istringstream lines(result.out);
    for (std::string line; std::getline(lines, line);) {
      all.push_back(nlohmann::json::parse(line).at("probabilities").at("rude"));
    }
    return all;
  };
  const std::vector<double> alone = scores("-", texts);
  const std::vector<double> together = scores("'" + tiny.folder().write("texts", texts) + "'", "");
  REQUIRE(alone.size() == 70);
  REQUIRE(together.size() == 70);
  for (size_t i = 0; i < alone.size(); ++i) CHECK(together[i] == doctest::Approx(alone[i]).epsilon(1e-6));
}

TEST_CASE("bench infer and packed batches: the same keys, and tokens without padding") {
  const TinyRun tiny;
  const std::string lengths = tiny.folder().write("lengths", "3\n9\n4\n2\n");
  const std::string shape = " --config '" + tiny.config_path() + "' --batch 2 --seq 12 --steps 2 --warmup 0 --json" +
                            " --lengths '" + lengths + "'";
  for (const char* verb : {"infer", "step"}) {
    for (const char* padding : {"longest", "packed"}) {
      const ProgramResult result = run_program(message("bench ", verb, shape, " --set data.padding=", padding));
      CAPTURE(result.err);
      REQUIRE(result.exit_code == 0);
      const nlohmann::json found = nlohmann::json::parse(result.out);
      CHECK(found.at("mode") == (std::string(verb) == "infer" ? "infer" : "train"));
      CHECK(found.at("weights_changed") == (std::string(verb) == "step"));
      CHECK(found.at("batch") == 2);
      CHECK(found.at("gflops_per_s") > 0);
    }
  }
}

TEST_CASE("inspect memory: the peak of a run is foreseen within 5 percent, and the parts are what they must be") {
  const TinyRun tiny;
  const std::vector<std::vector<std::string>> settings = {
      {"amp.dtype=off"},
      {"amp.dtype=bf16"},
      {"amp.dtype=fp16", "trainer.gradient_accumulation_steps=3"},
      {"amp.dtype=off", "trainer.activation_checkpointing=true", "optimizer.type=sgd"},
      {"amp.dtype=off", "data.padding=packed", "trainer.per_device_train_batch_size=8"},
      {"amp.dtype=off", "trainer.per_device_train_batch_size=1"}};  // the evaluation needs most
  for (std::vector<std::string> sets : settings) {
    CAPTURE(sets.back());
    sets.push_back("data.shuffle=false");  // so that the longest texts meet
    std::filesystem::remove_all(tiny.path("run"));
    REQUIRE(train(tiny, sets).exit_code == 0);
    const auto metrics = nlohmann::json::parse(slurp(tiny.path("run/metrics.json")));
    const double measured = metrics.at("train").at("peak_bytes");
    const ProgramResult result = run_program("inspect memory '" + tiny.config_path() + "' --json" + set_options(sets));
    CAPTURE(result.err);
    REQUIRE(result.exit_code == 0);
    const auto plan = nlohmann::json::parse(result.out);
    CHECK(plan.at("peak_bytes").get<double>() == doctest::Approx(measured).epsilon(0.05));
    CHECK((plan.at("peak_evaluation") == plan.at("peak_bytes")) ==
          (sets[1] == "trainer.per_device_train_batch_size=1"));
    const int64_t weights = plan.at("weights"), optimizer = plan.at("optimizer");
    const int64_t gradients = plan.at("gradients");  // of a table only the rows that a batch names, the first time
    CHECK((sets[0] == "amp.dtype=fp16" ? gradients == weights : gradients <= weights));
    CHECK(gradients > weights / 2);
    const bool sgd = sets.size() > 2 && sets[2] == "optimizer.type=sgd";
    CHECK((sgd ? optimizer < weights : optimizer > 2 * weights));  // moments, and a count for each parameter
    CHECK((plan.at("copies") > 0) == (sets[0] != "amp.dtype=off"));
    CHECK(plan.at("saved").contains(sgd ? "checkpoint" : "attention"));
  }
}

TEST_CASE("inspect ledger lays its batch as the run would: packed tokens need no mask") {
  const TinyRun tiny;
  const auto inputs_of_attention = [&](const std::string& padding) {
    const ProgramResult result =
        run_program("inspect ledger '" + tiny.config_path() + "' --json" + set_options({"data.padding=" + padding}));
    REQUIRE(result.exit_code == 0);
    const auto ledger = nlohmann::json::parse(result.out);
    for (const auto& row : ledger.at("ops")) {
      if (row.at("op") == "attention") return row.at("in").size();
    }
    return size_t{0};
  };
  CHECK(inputs_of_attention("longest") == 5);
  CHECK(inputs_of_attention("packed") == 4);
}

TEST_CASE("bench maths: errors of a few units of the last place, and no NaN where none belongs") {
  const ProgramResult result = run_program("bench maths --every 100003 --json");
  REQUIRE(result.exit_code == 0);
  const auto functions = nlohmann::json::parse(result.out).at("functions");
  for (const char* name : {"exp", "log", "log1p", "tanh", "sigmoid", "erf", "normal_cdf", "gelu"}) {
    CAPTURE(name);
    CHECK(functions.at(name).at("ulp") > 0.4);  // rounding alone
    CHECK(functions.at(name).at("ulp") < 10);
    CHECK(functions.at(name).at("wrong") == 0);
  }
}

TEST_CASE("bench step refuses sequences that the model has no positions for") {
  const ProgramResult result = run_program("bench step --seq 4096");
  CHECK(result.exit_code == 2);
  CHECK(contains(result.err, "--seq 4096 is more than the model's 512 positions"));
}

}  // namespace mixtape::tests
