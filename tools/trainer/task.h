// Task: what a run learns from, read and tokenized.
#pragma once

#include <string>
#include <vector>

#include "data/batch.h"
#include "data/dataset.h"
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

/// `task.format`, as the readers call it.
data::DataFormat data_format(const config::TaskConfig& task);

/// Tokenizes the texts of a split and takes its labels.
data::EncodedTexts encode_rows(data::Dataset rows, const data::Tokenizer& tokenizer, Progress& progress);

/// One split ("train", "val", "test") of `task.data_dir`. `max_rows` > 0 keeps the first rows. Errors are kind data
/// (data/dataset.h).
data::EncodedTexts read_split(const config::TaskConfig& task, const std::string& split, int64_t max_rows,
                              const data::Tokenizer& tokenizer, Progress& progress);

/// Throws E-DATA-CLASSES (data) for fewer than two classes, E-MODEL-HEAD (config) for a number of classes that
/// `model.head` cannot tell apart.
void check_classes(const config::Config& config, const std::vector<std::string>& class_names);

/// All three splits of `task.data_dir`. Throws what check_classes does, too.
Task read_task(const config::Config& config, const data::Tokenizer& tokenizer, Progress& progress);

}  // namespace mixtape::trainer
