// Evaluation of a split, and the class that a row of logits means.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/op.h"
#include "data/batch.h"
#include "models/classifier.h"
#include "tools/trainer/metrics.h"
#include "tools/trainer/progress.h"

namespace mixtape::trainer {

/// The most likely class of each row; the first on a tie.
std::vector<int64_t> predicted_classes(const models::BertClassifier& model, const Tensor& logits);

struct EvaluateOptions {
  std::shared_ptr<const CastRule> rule = {};  ///< null: no autocast
  int32_t pad_id = 0;
  int64_t batch_size = 64;
  std::string name = "evaluating";  ///< what progress calls it
};

/// All rows once, in batches sorted by length, without dropout and without recording. The loss is the mean over rows,
/// whatever the batch size is. Throws E-METRICS (data) for texts without rows.
Metrics evaluate(const models::BertClassifier& model, const data::EncodedTexts& texts, const EvaluateOptions& options,
                 Progress& progress);

}  // namespace mixtape::trainer
