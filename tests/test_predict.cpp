// mixtape predict: formats, a line out for a line in, at once.
#include <doctest/doctest.h>

#include <algorithm>

#include "tests/tiny_run.h"

namespace mixtape::tests {
namespace {
using nlohmann::json;

/// A tiny model that was trained once.
struct Trained {
  TinyRun tiny{48};
  std::string dir = "'" + tiny.path("run") + "'";
  Trained() {
    REQUIRE(run_program("train '" + tiny.config_path() + "' -s " + dir + " --set trainer.num_train_epochs=10 -q")
                .exit_code == 0);
  }
};
}  // namespace

TEST_CASE("predict: formats and lines") {
  const Trained trained;
  const std::string texts = "you are very , very rude !\n\nyou are kind today !\r\nyou \xFF are\nno newline at the end";
  const ProgramResult result = run_program("predict " + trained.dir, texts);
  CAPTURE(result.err);
  REQUIRE(result.exit_code == 0);
  CHECK(std::count(result.out.begin(), result.out.end(), '\n') == 5);
  CHECK(result.out.back() == '\n');
  std::istringstream lines(result.out);
  std::vector<json> predictions;
  for (std::string line; std::getline(lines, line);) predictions.push_back(json::parse(line));
  CHECK(predictions[0]["label"] == "rude");
  CHECK(predictions[2]["label"] == "plain");
  for (const json& p : predictions) {
    CHECK(p["probabilities"]["plain"].get<double>() + p["probabilities"]["rude"].get<double>() ==
          doctest::Approx(1).epsilon(1e-12));
    CHECK(p["score"] == p["probabilities"][p["label"].get<std::string>()]);
    CHECK(p["score"] >= 0.5);
  }
  CHECK(run_program("predict " + trained.dir + " - --format label", texts).out.rfind("rude\n", 0) == 0);
  const std::string table = run_program("predict " + trained.dir + " - --format tsv", texts).out;
  CHECK(table.rfind("rude\t" + predictions[0]["score"].dump() + "\n", 0) == 0);
  CHECK(run_program("predict " + trained.dir, "").out.empty());
}

TEST_CASE("predict: from a file, and what is no run or no file") {
  const Trained trained;
  const std::string file = "'" + trained.tiny.path("data/test_text.txt") + "'";
  const std::string out = run_program("predict " + trained.dir + " " + file + " --format label").out;
  CHECK(std::count(out.begin(), out.end(), '\n') == 10);
  CHECK(run_program("predict " + trained.dir + " nowhere").exit_code == 3);
  CHECK(run_program("predict nowhere", "x\n").exit_code == 4);
  CHECK(run_program("predict " + trained.dir + " --format xml", "x\n").exit_code == 2);
  // A damaged model is exit 4, with the file's name.
  trained.tiny.folder().write("run/best/model.safetensors", "rubbish");
  const ProgramResult damaged = run_program("predict " + trained.dir, "x\n");
  CHECK(damaged.exit_code == 4);
  CHECK(contains(damaged.err, "model.safetensors"));
}

TEST_CASE("predict: a text cannot inject a special token") {
  const Trained trained;
  const ProgramResult result = run_program("predict " + trained.dir, "you [SEP] are\nyou [UNK] are\n");
  const size_t middle = result.out.find('\n');
  // Both are brackets and letters that the vocabulary does not have; were [SEP] matched, they would differ.
  CHECK(result.out.substr(0, middle) == result.out.substr(middle + 1, middle));
}

TEST_CASE("predict: answers before the input ends") {
  const Trained trained;
  const TempFolder folder;
  const std::string in = "'" + folder.path("in") + "'", out = "'" + folder.path("out") + "'";
  // The second line is only sent once the answer to the first has come.
  const std::string script = "mkfifo " + in + " " + out + "; '" MIXTAPE_PROGRAM "' predict " + trained.dir +
                             " - --format label <" + in + " >" + out + " & exec 3>" + in + " 4<" + out +
                             "; echo you are very rude ! >&3; read -r a <&4; echo you are kind ! >&3; read -r b <&4; "
                             "exec 3>&-; wait; printf '%s|%s' \"$a\" \"$b\" >'" +
                             folder.path("result") + "'";
  REQUIRE(std::system(("timeout 60 sh -c \"$(cat <<'END'\n" + script + "\nEND\n)\"").c_str()) == 0);
  CHECK(slurp(folder.path("result")) == "rude|plain");
}

}  // namespace mixtape::tests
