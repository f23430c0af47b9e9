#include "models/classifier.h"

#include <algorithm>
#include <cmath>

#include "nn/init.h"

namespace mixtape::models {
namespace {

ClassifierConfig checked(const ClassifierConfig& c) {
  if (c.num_labels < 2 || (c.head == Head::sigmoid && c.num_labels != 2)) {
    fail(ErrorKind::config, "E-MODEL-CONFIG",
         message("model.head \"", c.head == Head::sigmoid ? "sigmoid" : "softmax", "\" cannot tell ", c.num_labels,
                 " classes apart: sigmoid takes exactly 2, softmax 2 or more"));
  }
  return c;
}

}  // namespace

BertClassifier::BertClassifier(const ClassifierConfig& config)
    : config_(checked(config)),
      bert_(config.bert, config.pooling == Pooling::pooler, config.activation_checkpointing),
      dropout_(config.head_dropout),
      classifier_(config.bert.hidden_size, config.head == Head::sigmoid ? 1 : config.num_labels) {
  add_child("bert", bert_);
  add_child("dropout", dropout_);
  add_child("classifier", classifier_);
}

BertClassifier::BertClassifier(const ClassifierConfig& config, uint64_t seed) : BertClassifier(config) {
  nn::init_normal(*this, config.bert.initializer_range, seed);
}

void BertClassifier::draw_head(uint64_t seed) const {
  for (const NamedTensor& parameter : parameters()) {
    if (parameter.name == "classifier.weight") nn::init_normal(parameter, config_.bert.initializer_range, seed);
  }
}

Tensor BertClassifier::logits(const BertInput& input, bool train) const {
  const Tensor out = classifier_.forward(dropout_.forward(bert_.pooled(input, train), train));
  return config_.head == Head::sigmoid ? ops::squeeze(out, 1) : out;
}

Tensor BertClassifier::logits(const data::Batch& batch, bool train) const {
  return logits({batch.input_ids, batch.token_type_ids, batch.attention_mask, batch.offsets, batch.longest}, train);
}

Tensor BertClassifier::loss(const data::Batch& batch, double items, bool train) const {
  return loss_of(logits(batch, train), batch.labels, items);
}

Tensor BertClassifier::loss_of(const Tensor& logits, const Tensor& labels, double items) const {
  const Scope scope("loss");
  if (config_.head == Head::sigmoid) return ops::bce_with_logits(logits, labels, {.items = items});
  return ops::cross_entropy(logits, labels, {.items = items});
}

std::vector<std::vector<double>> BertClassifier::probabilities(const Tensor& logits) const {
  const std::vector<double> values = to_vector(logits);
  const size_t classes = config_.head == Head::sigmoid ? 1 : static_cast<size_t>(config_.num_labels);
  std::vector<std::vector<double>> rows;
  for (size_t start = 0; start + classes <= values.size(); start += classes) {
    if (classes == 1) {
      rows.push_back({1 / (1 + std::exp(values[start])), 1 / (1 + std::exp(-values[start]))});
      continue;
    }
    std::vector<double> row(values.begin() + static_cast<std::ptrdiff_t>(start),
                            values.begin() + static_cast<std::ptrdiff_t>(start + classes));
    const double largest = *std::max_element(row.begin(), row.end());
    double sum = 0;
    for (double& v : row) sum += v = std::exp(v - largest);
    for (double& v : row) v /= sum;
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace mixtape::models
