// SavedRun: the best model of a run directory, ready to evaluate and predict.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/op.h"
#include "data/tokenizer.h"
#include "models/classifier.h"
#include "models/pretrained.h"
#include "tools/config/config.h"
#include "tools/trainer/metrics.h"
#include "tools/trainer/progress.h"

namespace mixtape::trainer {

struct Prediction {
  int64_t label = 0;
  std::vector<double> probabilities;  ///< by label
};

/// The model of best/, or of a directory that was exported from it. Throws E-RUN-DIR (model) when config.json lacks
/// what Mixtape writes there, E-MODEL-TENSORS when the weights do not fit.
std::unique_ptr<models::BertClassifier> load_saved_model(const std::string& dir, const models::PretrainedInfo& info);

class SavedRun {
 public:
  /// Reads config.json and best/ of a run directory. Throws E-RUN-DIR (model) when there is none, and what the readers
  /// of models and vocabularies throw. Sets the thread count of the configuration. `dtype` ("off", "bf16", "fp16"; "":
  /// the run's own) is what it computes in.
  SavedRun(const std::string& dir, const std::string& dtype, Progress& progress);

  const std::vector<std::string>& class_names() const { return class_names_; }
  const config::Config& config() const { return config_; }

  /// One for each text, as the trainer would see it: cut at max_length, under the run's autocast. All go through the
  /// model together, without padding.
  std::vector<Prediction> predict(const std::vector<std::string>& texts) const;

  /// The metrics of a split of `data_dir` ("": the run's own). Throws E-DATA-CLASSES (data) when the classes there are
  /// not the model's.
  Metrics evaluate(const std::string& split, const std::string& data_dir, Progress& progress) const;

 private:
  config::Config config_;
  std::vector<std::string> class_names_;
  std::unique_ptr<data::Tokenizer> tokenizer_;
  std::unique_ptr<models::BertClassifier> model_;
  std::shared_ptr<const CastRule> rule_;
};

}  // namespace mixtape::trainer
