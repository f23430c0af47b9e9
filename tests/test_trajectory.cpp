// The column "trajectory" of the field table against the truth: another value of a key changes the weights that a run
// of three steps ends with exactly where the table says so, in a run in which the key acts (Field::acts_in).
#include <doctest/doctest.h>

#include <map>
#include <string>
#include <vector>

#include "core/device_module.h"
#include "tests/tiny_run.h"
#include "tools/config/fields.h"

namespace mixtape::tests {
namespace {
using config::Choice;
using config::Field;
using config::Type;

/// Values for keys where "another word", "the opposite" or "twice as much" will not do.
const std::map<std::string, std::string> other_values = {
    {"task.data_dir", "other"},
    {"tokenizer.vocab", "other.txt"},
    {"tokenizer.max_length", "5"},
    {"model.pretrained", "start"},
    {"model.config.vocab_size", "40"},
    {"model.config.layer_norm_eps", "0.001"},
    {"trainer.lr_scheduler_type", "constant"},
    {"trainer.warmup_steps", "2"},
    {"trainer.warmup_ratio", "1"},
    {"trainer.eval_strategy", "steps"},
    {"trainer.eval_steps", "2"},
    {"trainer.metric", "loss"},
    {"trainer.early_stopping_patience", "1"},
    {"trainer.max_steps", "2"},
    {"trainer.max_train_rows", "8"},
    {"amp.policy", "torch_cpu"},
    {"amp.overrides", "{\"linear\": \"full\"}"},
    {"amp.parameter_storage", "bf16_stochastic"},
    {"amp.loss_scale", "3"},
    {"amp.init_scale", "49152"},
    {"amp.growth_factor", "3"},
    {"amp.growth_interval", "1"},
    {"amp.min_scale", "1048576"},
    {"amp.max_scale", "65536"},
    {"amp.max_consecutive_skips", "60"},
    {"device", "cuda"},
};

std::vector<std::string> words_of(std::string_view text) {
  std::vector<std::string> out;
  for (size_t at = 0; at < text.size();) {
    const size_t end = std::min(text.find(' ', at), text.size());
    out.emplace_back(text.substr(at, end - at));
    at = end + 1;
  }
  return out;
}

std::string another_number(const Field& field, double value) {
  const double twice = value == 0 ? 1 : value * 2;
  return message(field.range.holds(twice) ? twice : value / 2);
}

/// A value that is not `now` (JSON); "" when the field has no other.
std::string another_value(const Field& field, const std::string& now) {
  if (const auto found = other_values.find(field.path()); found != other_values.end()) return found->second;
  if (field.type == Type::boolean) return now == "true" ? "false" : "true";
  if (field.type == Type::integer || field.type == Type::number) return another_number(field, std::stod(now));
  for (const Choice& choice : field.choices) {
    if (choice.not_built.empty() && "\"" + std::string(choice.value) + "\"" != now) return std::string(choice.value);
  }
  return "";
}

/// Data in all formats, with capitals and a "[SEP]", and three steps of training on them.
class ShortRun {
 public:
  ShortRun() {
    const std::string vocab = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\n";
    folder_.write("vocab.txt", vocab + "you\nare\nkind\nrude\nvery\ntoday\n,\n!\n[\n]\nsep\n");
    folder_.write("other.txt", vocab + "rude\nkind\nvery\nare\nyou\n!\n,\ntoday\nsep\n]\n[\n");
    for (const std::string dir : {"data", "other"}) {
      std::filesystem::create_directory(folder_.path(dir));
      folder_.write(dir + "/mapping.txt", "0\tplain\n1\trude\n");
      for (const std::string split : {"train", "val", "test"}) write_split(dir, split);
    }
    folder_.write("config.json", R"({
  "task": {"data_dir": "data"}, "tokenizer": {"vocab": "vocab.txt", "max_length": 16},
  "model": {"config": {"hidden_size": 16, "num_hidden_layers": 1, "num_attention_heads": 2, "intermediate_size": 32,
                       "max_position_embeddings": 16}},
  "optimizer": {"learning_rate": 0.01},
  "trainer": {"max_steps": 3, "per_device_train_batch_size": 4, "logging_steps": 1}, "amp": {"dtype": "off"},
  "threads": 1
})");
    (void)weights({"trainer.max_steps=1"});
    std::filesystem::rename(folder_.path("run/best"), folder_.path("start"));
  }

  config::Config config(const std::vector<std::string>& sets) const {
    return config::load_config(folder_.path("config.json"), sets);
  }

  /// The weights that the run ends with, as the bytes of the file; each combination of settings runs once.
  std::string weights(const std::vector<std::string>& sets) const {
    std::string& bytes = seen_[set_options(sets)];
    if (!bytes.empty()) return bytes;
    std::filesystem::remove_all(folder_.path("run"));
    const ProgramResult result = run_program("train '" + folder_.path("config.json") + "' -q -s '" +
                                             folder_.path("run") + "'" + set_options(sets));
    CAPTURE(result.err);
    CHECK(result.exit_code == 0);
    return bytes = result.exit_code == 0 ? slurp(folder_.path("run/best/model.safetensors")) : "failed";
  }

 private:
  void write_split(const std::string& dir, const std::string& split) const {
    std::string texts, labels, tsv = "text\tlabel\n";
    for (int i = 0; i < 24; ++i) {
      const bool rude = (i + static_cast<int>(split.size())) % (dir == "data" ? 3 : 2) == 0;
      std::string text = "You are ";
      for (int word = 0; word < (i * 5) % 4; ++word) text += "very , ";
      text += std::string(rude ? "RUDE" : "kind") + (i % 2 == 0 ? " today [SEP] !" : " !");
      texts += text + "\n";
      labels += rude ? "1\n" : "0\n";
      tsv += "today " + text + (rude ? "\trude\n" : "\tplain\n");
    }
    folder_.write(dir + "/" + split + "_text.txt", texts);
    folder_.write(dir + "/" + split + "_labels.txt", labels);
    folder_.write(dir + "/" + split + ".tsv", tsv);
  }

  TempFolder folder_;
  mutable std::map<std::string, std::string> seen_;
};

bool is_built(const ShortRun& run, const std::vector<std::string>& sets) {
  return !contains(error_text([&] { (void)run.config(sets); }), "E-CONFIG-NOT-BUILT");
}

/// True when the key could be tried: there is another value, and it is built.
bool check_field(const ShortRun& run, const Field& field) {
  std::vector<std::string> sets = words_of(field.acts_in);
  const std::string now = field.json(run.config(sets)), other = another_value(field, now);
  if (other.empty() || (field.path() == "device" && device_count() == 0)) return false;
  const std::string before = run.weights(sets);
  sets.push_back(field.path() + "=" + other);
  if (!is_built(run, sets)) return false;
  CAPTURE(other);
  if (field.path() == "threads") {  // moves last bits, and only of products that are large enough to be shared
    CHECK(field.trajectory);
    return true;
  }
  CHECK((run.weights(sets) != before) == field.trajectory);
  return true;
}
}  // namespace

TEST_CASE("trajectory: a key changes the weights exactly where the table says so") {
  const ShortRun run;
  int tried = 0;
  std::string untried;
  for (const Field& field : config::fields()) {
    CAPTURE(field.path());
    if (check_field(run, field)) {
      ++tried;
    } else {
      untried += " " + field.path();
    }
  }
  MESSAGE(tried, " keys tried; without another value that is built:", untried);
  CHECK(tried >= 60);
}

TEST_CASE("trajectory: the same settings give the same weights, so that a difference means something") {
  const ShortRun first, second;
  CHECK(first.weights({"amp.dtype=fp16"}) == second.weights({"amp.dtype=fp16"}));
}

}  // namespace mixtape::tests
