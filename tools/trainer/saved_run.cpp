#include "tools/trainer/saved_run.h"

#include <numeric>

#include "amp/autocast.h"
#include "core/error.h"
#include "core/kernels/parallel.h"
#include "data/tweet_eval.h"
#include "models/pretrained.h"
#include "tools/config/fields.h"
#include "tools/trainer/evaluate.h"
#include "tools/trainer/run_dir.h"
#include "tools/trainer/setup.h"
#include "tools/trainer/task.h"

namespace mixtape::trainer {

std::unique_ptr<models::BertClassifier> load_saved_model(const std::string& dir, const models::PretrainedInfo& info) {
  if (!info.pooling || !info.head || info.class_names.empty()) {
    fail(ErrorKind::model, "E-RUN-DIR", dir + "/config.json: expected the id2label and mixtape entries of a saved run");
  }
  models::ClassifierConfig config;
  config.bert = info.bert;
  config.pooling = *info.pooling;
  config.head = *info.head;
  config.num_labels = std::ssize(info.class_names);
  auto model = std::make_unique<models::BertClassifier>(config);
  const models::LoadReport report = models::load_pretrained(*model, dir);
  if (!report.head_loaded) {
    fail(ErrorKind::model, "E-MODEL-TENSORS", message(dir, ": the trained head is not in it. ", report.head_note));
  }
  return model;
}

SavedRun::SavedRun(const std::string& dir, const std::string& dtype, Progress& progress) {
  const RunDir run = RunDir::open(dir);
  std::vector<std::string> sets;
  if (!dtype.empty()) sets = {"amp.dtype=" + dtype, "amp.parameter_storage=f32_with_low_copy"};  // any dtype will do
  config_ = config::load_config(run.path("config.json"), sets);
  kernels::set_thread_count(static_cast<int>(config_.threads));
  Activity activity(progress, "loading " + run.best(), 0);
  const models::PretrainedInfo info = models::read_pretrained(run.best());
  class_names_ = info.class_names;
  config_.tokenizer.vocab = info.vocab.empty() ? run.best() + "/vocab.txt" : info.vocab;
  tokenizer_ = std::make_unique<data::Tokenizer>(make_tokenizer(config_.tokenizer));
  activity.done(0);
  model_ = load_saved_model(run.best(), info);
  activity.done(0);
  store_parameters(config_, *model_);
  model_->to(device_of(config_, progress));
  rule_ = make_precision(config_).rule;
}

std::vector<Prediction> SavedRun::predict(const std::vector<std::string>& texts) const {
  const NoGradGuard no_grad;
  const amp::Autocast autocast(rule_);
  data::EncodedTexts encoded;
  for (const std::string& text : texts) encoded.append(tokenizer_->encode(text));
  std::vector<int64_t> rows(texts.size());
  std::iota(rows.begin(), rows.end(), int64_t{0});
  const data::Batch batch = data::collate(encoded, rows, {.padding = data::Padding::packed});
  const Tensor logits = model_->logits(data::to(batch, model_->device()), false);
  const std::vector<int64_t> labels = predicted_classes(*model_, logits);
  std::vector<std::vector<double>> probabilities = model_->probabilities(logits);
  std::vector<Prediction> out;
  for (size_t i = 0; i < texts.size(); ++i) {
    out.push_back({.label = labels[i], .probabilities = std::move(probabilities[i])});
  }
  return out;
}

Metrics SavedRun::evaluate(const std::string& split, const std::string& data_dir, Progress& progress) const {
  const std::string& dir = data_dir.empty() ? config_.task.data_dir : data_dir;
  const data::DataFormat format = data_format(config_.task);
  const std::vector<std::string> names =
      data::has_class_names(format, dir) ? data::read_class_names(dir) : class_names_;
  if (names != class_names_) {
    fail(ErrorKind::data, "E-DATA-CLASSES",
         message(dir, "/mapping.txt: the classes are ", config::joined(names), ", but the model was trained for ",
                 config::joined(class_names_), ", in this order"));
  }
  const data::EncodedTexts texts =
      encode_rows(data::read_dataset(format, dir, split, class_names_), *tokenizer_, progress);
  return trainer::evaluate(*model_, texts,
                           {.rule = rule_, .pad_id = tokenizer_->vocab().special().pad, .name = "evaluating " + split},
                           progress);
}

}  // namespace mixtape::trainer
