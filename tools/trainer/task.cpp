#include "tools/trainer/task.h"

#include <iterator>

#include "core/error.h"
#include "data/file.h"

namespace mixtape::trainer {

data::Tokenizer make_tokenizer(const config::TokenizerConfig& config) {
  return data::Tokenizer(data::Vocab::load(config.vocab), {.lowercase = config.lowercase,
                                                           .match_special_tokens = config.match_special_tokens,
                                                           .max_length = config.max_length});
}

data::DataFormat data_format(const config::TaskConfig& task) {
  switch (task.format) {
    case config::TaskFormat::tweet_eval: return data::DataFormat::tweet_eval;
    case config::TaskFormat::tsv: return data::DataFormat::tsv;
    case config::TaskFormat::csv: return data::DataFormat::csv;
    case config::TaskFormat::jsonl: return data::DataFormat::jsonl;
  }
  return data::DataFormat::tweet_eval;
}

data::EncodedTexts encode_rows(data::Dataset rows, const data::Tokenizer& tokenizer, Progress& progress) {
  Activity activity(progress, "tokenizing " + rows.split, rows.rows());
  data::EncodedTexts texts = data::encode_texts(rows.texts, tokenizer, [&](int64_t done) { activity.done(done); });
  texts.set_labels(std::move(rows.labels));
  return texts;
}

data::EncodedTexts read_split(const config::TaskConfig& task, const std::string& split, int64_t max_rows,
                              const data::Tokenizer& tokenizer, Progress& progress) {
  return encode_rows(data::read_dataset(data_format(task), task.data_dir, split, {}, max_rows), tokenizer, progress);
}

void check_classes(const config::Config& config, const std::vector<std::string>& class_names) {
  const std::string& dir = config.task.data_dir;
  const int64_t classes = std::ssize(class_names);
  if (classes < 2) {
    fail(ErrorKind::data, "E-DATA-CLASSES",
         message(dir, ": only one class, ", data::quoted(class_names.at(0)), "; there must be two or more"));
  }
  if (config.model.head == config::Head::sigmoid && classes != 2) {
    fail(ErrorKind::config, "E-MODEL-HEAD",
         message("model.head = \"sigmoid\" (", config.origin("model.head").text(), ") tells two classes apart, but ",
                 dir, " has ", classes, ": set model.head=softmax"));
  }
}

Task read_task(const config::Config& config, const data::Tokenizer& tokenizer, Progress& progress) {
  const data::DataFormat format = data_format(config.task);
  const std::string& dir = config.task.data_dir;
  data::Dataset train = data::read_dataset(format, dir, "train", {}, config.trainer.max_train_rows);
  Task task{.class_names = train.class_names, .train = {}, .val = {}, .test = {}};
  check_classes(config, task.class_names);
  data::Dataset val = data::read_dataset(format, dir, "val", task.class_names);
  data::Dataset test = data::read_dataset(format, dir, "test", task.class_names);
  for (const std::string& absent : train.absent_classes()) progress.warning("warning W-DATA  " + absent);
  task.train = encode_rows(std::move(train), tokenizer, progress);
  task.val = encode_rows(std::move(val), tokenizer, progress);
  task.test = encode_rows(std::move(test), tokenizer, progress);
  progress.detail(message("read ", task.train.rows(), " training, ", task.val.rows(), " validation and ",
                          task.test.rows(), " test texts, ", static_cast<int64_t>(task.class_names.size()),
                          " classes; ", task.train.tokens(), " tokens to train on"));
  return task;
}

}  // namespace mixtape::trainer
