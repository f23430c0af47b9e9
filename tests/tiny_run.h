// A data set, a vocabulary and a configuration small enough that a whole run takes a blink; and the program, run from
// outside.
#pragma once

#include <sys/wait.h>

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/shared.h"
#include "tools/config/config.h"

namespace mixtape::tests {

/// Texts of two classes ("plain", "rude") of varying length, cut into the splits of tweet_eval's format. What tells the
/// classes apart is one word.
class TinyRun {
 public:
  explicit TinyRun(int train_rows = 24, int other_rows = 10) {
    std::filesystem::create_directory(folder_.path("data"));
    folder_.write("data/mapping.txt", "0\tplain\n1\trude\n");
    folder_.write("vocab.txt", "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nyou\nare\nkind\nrude\nvery\ntoday\n,\n!\n");
    write_split("train", train_rows, 0);
    write_split("val", other_rows, 1);
    write_split("test", other_rows, 2);
    folder_.write("config.json", R"({
  "task": {"data_dir": "data"}, "tokenizer": {"vocab": "vocab.txt", "max_length": 16},
  "model": {"config": {"hidden_size": 16, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 32,
                       "max_position_embeddings": 16}},
  "optimizer": {"learning_rate": 0.01},
  "trainer": {"num_train_epochs": 2, "per_device_train_batch_size": 4, "logging_steps": 1},
  "amp": {"dtype": "off"}, "threads": 1
})");
  }

  const TempFolder& folder() const { return folder_; }
  std::string path(const std::string& name) const { return folder_.path(name); }
  std::string config_path() const { return path("config.json"); }
  config::Config config(const std::vector<std::string>& sets = {}) const {
    return config::load_config(config_path(), sets);
  }

 private:
  void write_split(const std::string& split, int rows, int shift) const {
    std::string texts, labels;
    for (int i = 0; i < rows; ++i) {
      const bool rude = (i + shift) % 3 == 0;
      texts += "you are ";
      for (int word = 0; word < (i * 5 + shift) % 4; ++word) texts += "very , ";
      texts += std::string(rude ? "rude" : "kind") + (i % 2 == 0 ? " today !\n" : " !\n");
      labels += rude ? "1\n" : "0\n";
    }
    folder_.write("data/" + split + "_text.txt", texts);
    folder_.write("data/" + split + "_labels.txt", labels);
  }

  TempFolder folder_;
};

/// "--set A --set B" in the shell's quotes.
inline std::string set_options(const std::vector<std::string>& sets) {
  std::string out;
  for (const std::string& set : sets) out += " --set '" + set + "'";
  return out;
}

struct ProgramResult {
  int exit_code = -1;
  std::string out, err;
};

/// Runs the program through the shell; `arguments` are shell words, `before` stands before the program's name (an
/// environment, setpriv).
inline ProgramResult run_program(const std::string& arguments, const std::string& input = "",
                                 const std::string& before = "") {
  const TempFolder folder;
  const std::string in = folder.write("in", input);
  const std::string command = before + " '" MIXTAPE_PROGRAM "' " + arguments + " <'" + in + "' >'" +
                              folder.path("out") + "' 2>'" + folder.path("err") + "'";
  const int status = std::system(command.c_str());
  return {WIFEXITED(status) ? WEXITSTATUS(status) : -1, slurp(folder.path("out")), slurp(folder.path("err"))};
}

/// The events of a log.jsonl, in order; a line that is no JSON throws.
inline std::vector<nlohmann::json> read_log(const std::string& path) {
  std::vector<nlohmann::json> events;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) events.push_back(nlohmann::json::parse(line));
  return events;
}

inline std::vector<nlohmann::json> events_of(const std::vector<nlohmann::json>& log, const std::string& name) {
  std::vector<nlohmann::json> out;
  for (const nlohmann::json& event : log) {
    if (event.at("event") == name) out.push_back(event);
  }
  return out;
}

}  // namespace mixtape::tests
