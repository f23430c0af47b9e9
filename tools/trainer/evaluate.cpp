#include "tools/trainer/evaluate.h"

#include <algorithm>

#include "amp/autocast.h"
#include "core/factory.h"

namespace mixtape::trainer {

std::vector<int64_t> predicted_classes(const models::BertClassifier& model, const Tensor& logits) {
  const std::vector<double> values = to_vector(logits);
  std::vector<int64_t> classes;
  if (model.config().head == models::Head::sigmoid) {
    for (const double value : values) classes.push_back(value > 0 ? 1 : 0);
    return classes;
  }
  for (auto row = values.begin(); row != values.end(); row += model.config().num_labels) {
    classes.push_back(std::max_element(row, row + model.config().num_labels) - row);
  }
  return classes;
}

Metrics evaluate(const models::BertClassifier& model, const data::EncodedTexts& texts, const EvaluateOptions& options,
                 Progress& progress) {
  const NoGradGuard no_grad;
  const amp::Autocast autocast(options.rule);
  const data::CollateOptions collate{.pad_id = options.pad_id, .label_dtype = model.label_dtype()};
  Activity activity(progress, options.name, texts.rows());
  Confusion confusion(model.config().num_labels);
  double loss_sum = 0;
  for (const std::vector<int64_t>& rows : data::plan_sorted(texts.lengths(), options.batch_size)) {
    const data::Batch batch = data::to(data::collate(texts, rows, collate), model.device());
    const Tensor logits = model.logits(batch, false);
    const double count = static_cast<double>(batch.rows);
    loss_sum += model.loss_of(logits, batch.labels, count).item() * count;
    const std::vector<int64_t> predicted = predicted_classes(model, logits);
    for (size_t i = 0; i < rows.size(); ++i) {
      confusion.add(texts.labels()[static_cast<size_t>(rows[i])], predicted[i]);
    }
    activity.done(confusion.rows());
  }
  const double all = static_cast<double>(texts.rows());
  return Metrics(std::move(confusion), loss_sum / all);
}

}  // namespace mixtape::trainer
