// mixtape export and mixtape inspect weights, from outside.
#include <doctest/doctest.h>

#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>

#include "core/factory.h"
#include "data/safetensors.h"
#include "tests/shared.h"
#include "tests/tiny_run.h"
#include "tests/torch_files.h"

namespace {
using namespace mixtape::tests;
using nlohmann::json;
namespace fs = std::filesystem;

std::string quoted_path(const std::string& path) { return "'" + path + "'"; }
}  // namespace

TEST_CASE("export: the files of best/, as they are; an occupied place is refused") {
  for (const std::string pooling : {"cls", "pooler"}) {
    const TinyRun tiny(8, 4);
    const std::string run = tiny.path("run"), out = tiny.path("made/out");
    const ProgramResult trained =
        run_program("train " + quoted_path(tiny.config_path()) + " -q -s " + quoted_path(run) +
                    set_options({"trainer.max_steps=2", "model.pooling=" + pooling}));
    REQUIRE_MESSAGE(trained.exit_code == 0, trained.err);
    const ProgramResult exported = run_program("export " + quoted_path(run) + " " + quoted_path(out + "/"));
    REQUIRE_MESSAGE(exported.exit_code == 0, exported.err);
    CHECK(exported.out.empty());
    CHECK(contains(exported.err, pooling == "cls" ? "as BertModel" : "as AutoModelForSequenceClassification"));
    size_t count = 0;
    for (const fs::directory_entry& entry : fs::directory_iterator(run + "/best")) {
      CHECK(slurp(entry.path().string()) == slurp(out + "/" + entry.path().filename().string()));
      ++count;
    }
    CHECK(count == 5);
    CHECK(std::distance(fs::directory_iterator(tiny.path("made")), {}) == 1);  // nothing temporary is left
    const json config = json::parse(slurp(out + "/config.json"));
    CHECK(config["architectures"][0] == (pooling == "cls" ? "BertModel" : "BertForSequenceClassification"));
    CHECK(config["id2label"]["1"] == "rude");
    CHECK(config["mixtape"] == json{{"pooling", pooling}, {"head", "sigmoid"}});

    const ProgramResult again = run_program("export " + quoted_path(out) + " " + quoted_path(out));
    CHECK(again.exit_code == 5);
    CHECK(contains(again.err, "is not empty"));
    CHECK(run_program("export " + quoted_path(out) + " " + quoted_path(tiny.path("second"))).exit_code == 0);
    fs::create_directory(tiny.path("empty"));
    CHECK(run_program("export -q " + quoted_path(run) + " " + quoted_path(tiny.path("empty"))).exit_code == 0);
    CHECK(run_program("export " + quoted_path(run) + " " + quoted_path(tiny.path("vocab.txt"))).exit_code == 5);
  }
}

TEST_CASE("export: what is no run, or a broken one, is exit 4 and leaves nothing") {
  const TempFolder folder;
  const std::string out = folder.path("out");
  CHECK(run_program("export " + quoted_path(folder.path("none")) + " " + quoted_path(out)).exit_code == 4);
  folder.write("config.json", "{\"model_type\": \"bert\"}");
  folder.write("model.safetensors", "broken");
  CHECK(run_program("export " + quoted_path(folder.path()) + " " + quoted_path(out)).exit_code == 4);
  CHECK_FALSE(fs::exists(out));
}

TEST_CASE("inspect weights: names, dtypes, shapes, sums and first values; exit 4 on a bad file") {
  const TempFolder folder;
  const double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  mixtape::data::write_safetensors(
      folder.path("model.safetensors"),
      {{"module.odd", mixtape::from({inf, -inf, nan, 1.5}, {4})},
       {"module.many", mixtape::from({1, 2, 3, 4, 5, 6, 7, 8, 9, 10}, {2, 5}, mixtape::DType::bf16)},
       {"module.ids", mixtape::from_ints({3, -4}, {2})},
       {"module.none", mixtape::zeros({0, 3}, mixtape::DType::f16)}});
  const ProgramResult shown = run_program("inspect weights " + quoted_path(folder.path()) + " --json");
  REQUIRE_MESSAGE(shown.exit_code == 0, shown.err);
  CHECK(json::parse(shown.out) == json::parse(R"({"tensors": [
    {"name": "ids", "dtype": "i64", "shape": [2], "sum": -1, "first": [3, -4]},
    {"name": "many", "dtype": "bf16", "shape": [2, 5], "sum": 55, "first": [1, 2, 3, 4, 5, 6, 7, 8]},
    {"name": "none", "dtype": "f16", "shape": [0, 3], "sum": 0, "first": []},
    {"name": "odd", "dtype": "f32", "shape": [4], "sum": null, "first": ["inf", "-inf", "nan", 1.5]}]})"));
  const std::string torch = torch_zip(dict_op({{"w", tensor_op({.shape = {2, 2}, .strides = {1, 2}})}}),
                                      {{"0", bytes_of<float>({1, 2, 3, 4})}});
  const ProgramResult zip = run_program("inspect weights " + quoted_path(folder.write("x.bin", torch)) + " --json");
  REQUIRE_MESSAGE(zip.exit_code == 0, zip.err);
  CHECK(json::parse(zip.out)["tensors"][0]["first"] == json{1, 3, 2, 4});
  CHECK(contains(run_program("inspect weights " + quoted_path(folder.path())).out, "many  bf16 [2, 5]  sum 55"));

  const ProgramResult bad =
      run_program("inspect weights " + quoted_path(folder.write("bad.bin", "<html>")) + " --json");
  CHECK(bad.exit_code == 4);
  CHECK(bad.out.empty());
  CHECK(contains(bad.err, "looks like a web page"));
  CHECK(run_program("inspect weights " + quoted_path(folder.path("none"))).exit_code == 4);
}
