// Task: what a run learns from, read and tokenized.
#pragma once

#include <string>
#include <vector>

#include "data/batch.h"
#include "data/tokenizer.h"
#include "tools/config/config.h"
#include "tools/trainer/progress.h"

namespace mixtape::trainer {

struct Task {
  std::vector<std::string> class_names;  ///< by label
  data::EncodedTexts train, val, test;
};

/// As the section `tokenizer` says. Errors are kind data (data/vocab.h).
data::Tokenizer make_tokenizer(const config::TokenizerConfig& config);

/// One split ("train", "val", "test") of a folder. `max_rows` > 0 keeps the first rows. Errors are kind data
/// (data/tweet_eval.h).
data::EncodedTexts read_split(const std::string& data_dir, const std::string& split, int64_t max_rows,
                              const data::Tokenizer& tokenizer, Progress& progress);

/// All three splits of `task.data_dir`.
Task read_task(const config::Config& config, const data::Tokenizer& tokenizer, Progress& progress);

}  // namespace mixtape::trainer
