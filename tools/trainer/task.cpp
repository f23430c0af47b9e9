#include "tools/trainer/task.h"

#include "core/error.h"
#include "data/tweet_eval.h"

namespace mixtape::trainer {

data::Tokenizer make_tokenizer(const config::TokenizerConfig& config) {
  return data::Tokenizer(data::Vocab::load(config.vocab), {.lowercase = config.lowercase,
                                                           .match_special_tokens = config.match_special_tokens,
                                                           .max_length = config.max_length});
}

data::EncodedTexts read_split(const std::string& data_dir, const std::string& split, int64_t max_rows,
                              const data::Tokenizer& tokenizer, Progress& progress) {
  data::Dataset rows = data::read_tweet_eval(data_dir, split, max_rows);
  Activity activity(progress, "tokenizing " + split, rows.rows());
  data::EncodedTexts texts = data::encode_texts(rows.texts, tokenizer, [&](int64_t done) { activity.done(done); });
  texts.set_labels(std::move(rows.labels));
  return texts;
}

Task read_task(const config::Config& config, const data::Tokenizer& tokenizer, Progress& progress) {
  const std::string& dir = config.task.data_dir;
  Task task{.class_names = data::read_class_names(dir), .train = {}, .val = {}, .test = {}};
  task.train = read_split(dir, "train", config.trainer.max_train_rows, tokenizer, progress);
  task.val = read_split(dir, "val", 0, tokenizer, progress);
  task.test = read_split(dir, "test", 0, tokenizer, progress);
  progress.detail(message("read ", task.train.rows(), " training, ", task.val.rows(), " validation and ",
                          task.test.rows(), " test texts, ", static_cast<int64_t>(task.class_names.size()),
                          " classes; ", task.train.tokens(), " tokens to train on"));
  return task;
}

}  // namespace mixtape::trainer
