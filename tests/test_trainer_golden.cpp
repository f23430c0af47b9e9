// Golden training curves (PyTorch, f64) through `mixtape train`.
#include <doctest/doctest.h>

#include <cmath>

#include "core/factory.h"
#include "data/safetensors.h"
#include "tests/tiny_run.h"

namespace mixtape::tests {
namespace {
using nlohmann::json;

/// A copy of a pretrained directory with the recipe's head: weight[i] = 0.02·sin(i + 1), bias 0.
void add_head(const std::string& from, const TempFolder& to) {
  const data::SafeTensorsFile file = data::SafeTensorsFile::open(from + "/model.safetensors");
  NamedTensors tensors;
  for (const data::TensorEntry& entry : file.tensors()) tensors.push_back({entry.name, file.read(entry)});
  const json config = json::parse(slurp(from + "/config.json"));
  std::vector<double> weight;
  for (int i = 0; i < config["hidden_size"].get<int>(); ++i) weight.push_back(0.02 * std::sin(i + 1));
  tensors.push_back({"classifier.weight", mixtape::from(weight, {1, std::ssize(weight)})});
  tensors.push_back({"classifier.bias", zeros({1})});
  data::write_safetensors(to.path("model.safetensors"), tensors);
  to.write("config.json", config.dump());
}

/// The real training rows, and a few rows to evaluate on.
void make_data(const TempFolder& folder) {
  const std::string from = shared_path("data/tweet_eval/offensive/");
  std::filesystem::create_directory(folder.path("data"));
  for (const std::string file : {"mapping.txt", "train_text.txt", "train_labels.txt"})
    folder.write("data/" + file, slurp(from + file));
  for (const std::string split : {"val", "test"}) {
    folder.write("data/" + split + "_text.txt", "one\ntwo\n");
    folder.write("data/" + split + "_labels.txt", "0\n1\n");
  }
}

struct Tolerance {
  double loss, norm;  // absolute; relative
};

/// Trains by the recipe of `golden` from `weights` and compares every step with the f64 column.
void check_curve(const std::string& weights, const std::string& golden, const std::string& dtype, Tolerance allowed) {
  const TempFolder folder;
  add_head(weights, folder);
  make_data(folder);
  const json curve = json::parse(slurp(golden)), &recipe = curve["recipe"];
  const std::string steps = recipe["steps"].dump(), batch = recipe["batch_size"].dump();
  const int rows = recipe["steps"].get<int>() * recipe["batch_size"].get<int>();
  const ProgramResult result = run_program(
      "train '" + folder.write("c.json", "{}") + "' -q -s '" + folder.path("run") + "'" +
      set_options(
          {"task.data_dir=" + folder.path("data"), "tokenizer.vocab=" + shared_path("data/bert/vocab.txt"),
           "tokenizer.max_length=" + recipe["max_length"].dump(), "model.pretrained=" + folder.path(),
           "model.head_dropout=0", "model.config.hidden_dropout_prob=0", "model.config.attention_probs_dropout_prob=0",
           "data.shuffle=false", "data.length_bucketing=false", "optimizer.learning_rate=" + recipe["lr"].dump(),
           "trainer.warmup_steps=" + recipe["warmup_steps"].dump(), "trainer.per_device_train_batch_size=" + batch,
           "trainer.max_train_rows=" + std::to_string(rows), "trainer.num_train_epochs=1", "trainer.eval_strategy=no",
           "trainer.logging_steps=1", "amp.dtype=" + dtype}));
  CAPTURE(result.err);
  CAPTURE(dtype);
  REQUIRE(result.exit_code == 0);
  const std::vector<json> log = events_of(read_log(folder.path("run/log.jsonl")), "step");
  REQUIRE(log.size() == curve["f64"].size());
  double worst_loss = 0, worst_norm = 0, worst_lr = 0;
  for (size_t i = 0; i < log.size(); ++i) {
    const json& wanted = curve["f64"][i];
    const double norm = wanted["grad_norm"].get<double>();
    worst_loss = std::max(worst_loss, std::abs(log[i]["loss"].get<double>() - wanted["loss"].get<double>()));
    worst_norm = std::max(worst_norm, std::abs(log[i]["grad_norm"].get<double>() - norm) / norm);
    worst_lr = std::max(worst_lr, std::abs(log[i]["lr"].get<double>() - wanted["lr"].get<double>()));
  }
  MESSAGE(dtype << ": loss within " << worst_loss << ", norm within " << worst_norm << " of f64");
  CHECK(worst_loss < allowed.loss);
  CHECK(worst_norm < allowed.norm);
  CHECK(worst_lr < 1e-12);
}
}  // namespace

TEST_CASE("trainer: the training curve of the synthetic model, in f32, bf16 and fp16") {
  if (no_shared()) return;
  const std::string dir = shared_path("data/bert/tiny-synthetic");
  check_curve(dir, dir + "/training.json", "off", {2e-6, 5e-5});
  check_curve(dir, dir + "/training.json", "bf16", {2e-3, 2e-2});
  check_curve(dir, dir + "/training.json", "fp16", {3e-4, 3e-3});
}

TEST_CASE("trainer: the training curve of MiniLM, in f32, bf16 and fp16") {
  const std::string weights = MIXTAPE_SOURCE_DIR "/downloads/minilm";
  if (no_shared()) return;
  if (!std::filesystem::exists(weights + "/model.safetensors")) {
    std::cerr << "skipped: no downloads/minilm\n";
    return;
  }
  const std::string golden = shared_path("data/minilm/training.json");
  check_curve(weights, golden, "off", {2e-6, 5e-5});
  check_curve(weights, golden, "bf16", {2e-3, 2e-2});
  check_curve(weights, golden, "fp16", {3e-4, 3e-3});
}

}  // namespace mixtape::tests
