// From one's own files to predictions, with the program; and the other task of tweet_eval by one changed line.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "tests/tiny_run.h"

namespace mixtape::tests {
namespace {

const std::vector<std::string> moods = {"bad", "fine", "good"};

/// Three moods, told apart by one word, in the format of the given suffix.
void write_split(const TempFolder& folder, const std::string& split, const std::string& format, int rows) {
  std::string out = format == "csv" ? "id,text,label\n" : format == "tsv" ? "label\ttext\n" : "";
  for (int i = 0; i < rows; ++i) {
    const std::string mood = moods[static_cast<size_t>(i % 3)], text = i % 2 == 0 ? "it is " + mood + " , today" : mood;
    if (format == "csv") out += std::to_string(i) + ",\"" + text + "\"," + mood + "\n";
    if (format == "tsv") out += mood + "\t" + text + "\n";
    if (format == "jsonl") out += "{\"text\": \"" + text + "\", \"label\": \"" + mood + "\"}\n";
  }
  folder.write(split + "." + format, out);
}

std::string write_config(const TempFolder& folder, const std::string& format) {
  folder.write("vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\nit\nis\nbad\nfine\ngood\ntoday\n,\n");
  return folder.write("config.json", R"({
  "task": {"format": ")" + format + R"(", "data_dir": "."}, "tokenizer": {"vocab": "vocab.txt", "max_length": 16},
  "model": {"head": "softmax", "config": {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2,
            "intermediate_size": 32, "max_position_embeddings": 16}},
  "optimizer": {"learning_rate": 0.01}, "trainer": {"max_steps": 40, "per_device_train_batch_size": 6},
  "amp": {"dtype": "off"}, "threads": 1
})");
}
}  // namespace

TEST_CASE("own data: three classes of any format train, evaluate and predict their names") {
  for (const std::string format : {"tsv", "csv", "jsonl"}) {
    CAPTURE(format);
    const TempFolder folder;
    for (const std::string split : {"train", "val", "test"})
      write_split(folder, split, format, split == "train" ? 36 : 9);
    const std::string config = write_config(folder, format), run = folder.path("run");
    const ProgramResult trained = run_program("train '" + config + "' -q -s '" + run + "'");
    CAPTURE(trained.err);
    REQUIRE(trained.exit_code == 0);
    const nlohmann::json saved = nlohmann::json::parse(slurp(run + "/best/config.json"));
    CHECK(saved["id2label"] == nlohmann::json({{"0", "bad"}, {"1", "fine"}, {"2", "good"}}));
    CHECK(nlohmann::json::parse(slurp(run + "/run.json"))["xxh3_128"]["data"].contains("val." + format));
    CHECK(run_program("predict '" + run + "' --format label", "it is bad , today\ngood\nfine\n").out ==
          "bad\ngood\nfine\n");
    const nlohmann::json scores = nlohmann::json::parse(run_program("evaluate '" + run + "' -q").out);
    CHECK(scores["rows"] == 9);
    CHECK(scores["per_class"].size() == 3);
    CHECK(scores["accuracy"] == 1);
  }
}

TEST_CASE("own data: the sigmoid head refuses three classes and says what to set") {
  const TempFolder folder;
  for (const std::string split : {"train", "val", "test"}) write_split(folder, split, "tsv", 9);
  const std::string config = write_config(folder, "tsv"), run = folder.path("run");
  const ProgramResult result = run_program("train '" + config + "' -s '" + run + "' --set model.head=sigmoid");
  CHECK(result.exit_code == 2);
  CHECK(contains(result.err, "error E-MODEL-HEAD  "));
  CHECK(contains(result.err, "set model.head=softmax"));
  CHECK_FALSE(std::filesystem::exists(run));
}

TEST_CASE("own data: F19, one row fills no batch and trains all the same; one class is no task") {
  const TinyRun tiny(1);
  const std::string train = "train '" + tiny.config_path() + "' -q -s '" + tiny.path("run") + "' ";
  const ProgramResult one = run_program(train + "--set trainer.per_device_train_batch_size=64");
  CHECK(one.exit_code == 0);
  CHECK(contains(one.err, "warning W-DATA  "));
  CHECK(contains(one.err, "train_labels.txt: no row of the class \"plain\""));
  tiny.folder().write("data/mapping.txt", "0\tonly\n");
  for (const std::string split : {"train", "val", "test"}) {
    tiny.folder().write("data/" + split + "_text.txt", "you\n");
    tiny.folder().write("data/" + split + "_labels.txt", "0\n");
  }
  const ProgramResult result = run_program(train + "--force");
  CHECK(result.exit_code == 3);
  CHECK(contains(result.err, "E-DATA-CLASSES"));
}

TEST_CASE("own data: a dry run reads and checks everything, and writes nothing") {
  const TempFolder folder;
  for (const std::string split : {"train", "val", "test"}) write_split(folder, split, "tsv", 9);
  const std::string config = write_config(folder, "tsv"), run = folder.path("run");
  const std::string dry = "train '" + config + "' --dry-run -s '" + run + "'";
  const ProgramResult good = run_program(dry);
  CHECK(good.exit_code == 0);
  for (const std::string words :
       {"9 training, 9 validation and 9 test texts; classes: bad, fine, good", "fresh weights", "precision  off",
        "2 batches an epoch", "40 steps", "nothing was written"})
    CHECK_MESSAGE(contains(good.out, words), words);
  CHECK_FALSE(std::filesystem::exists(run));
  CHECK(run_program(dry + " --set trainer.seed=-1").exit_code == 2);
  CHECK(run_program(dry + " --set trainer.warmup_steps=40 --set amp.policy=none.json --set amp.dtype=bf16").exit_code ==
        2);
  CHECK(run_program(dry + " --set model.pretrained=.").exit_code == 4);
  CHECK(run_program(dry + " --set tokenizer.vocab=train.tsv").exit_code == 3);
  folder.write("val.tsv", "label\ttext\nawful\tit\n");
  CHECK(run_program(dry).exit_code == 3);
  CHECK(run_program("train '" + config + "' --dry-run -s '" + folder.path() + "'").exit_code ==
        run_program("train '" + config + "' -s '" + folder.path() + "'").exit_code);
}

TEST_CASE("own data: irony is one changed line") {
  if (no_shared()) return;
  const TempFolder folder;
  const auto config_of = [](const std::string& task) {
    return R"({
  "task": {"data_dir": ")" +
           shared_path("data/tweet_eval/" + task) + R"("},
  "tokenizer": {"vocab": ")" +
           shared_path("data/bert/vocab.txt") + R"(", "max_length": 32},
  "model": {"config": {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32}},
  "trainer": {"max_steps": 2, "max_train_rows": 64}, "amp": {"dtype": "off"}
})";
  };
  const std::string run = folder.path("run");
  const ProgramResult trained =
      run_program("train '" + folder.write("irony.json", config_of("irony")) + "' -q -s '" + run + "'");
  CAPTURE(trained.err);
  REQUIRE(trained.exit_code == 0);
  const nlohmann::json scores = nlohmann::json::parse(slurp(run + "/metrics.json"));
  CHECK(scores["val"]["rows"] == 955);
  CHECK(scores["test"]["rows"] == 784);
  const std::string label = run_program("predict '" + run + "' --format label", "what a day\n").out;
  CHECK((label == "irony\n" || label == "non_irony\n"));
  const ProgramResult other =
      run_program("evaluate '" + run + "' -q --data-dir '" + shared_path("data/tweet_eval/offensive") + "'");
  CHECK(other.exit_code == 3);
  CHECK(contains(other.err, "E-DATA-CLASSES"));
}

}  // namespace mixtape::tests
