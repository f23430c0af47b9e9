// A BERT encoder with a classification head.
#pragma once

#include "data/batch.h"
#include "models/bert.h"

namespace mixtape::models {

class BertClassifier : public nn::Module {
 public:
  /// Weights as their layers make them (zeros, ones): for a model whose weights come from a file.
  explicit BertClassifier(const ClassifierConfig& config);
  /// All weights drawn with std initializer_range: a pure function of (seed, parameter name). Parameter names:
  /// "bert.…" and "classifier.weight|bias".
  BertClassifier(const ClassifierConfig& config, uint64_t seed);

  /// Draws the head's weights alone, the same numbers as if all had been drawn.
  void draw_head(uint64_t seed) const;

  const ClassifierConfig& config() const { return config_; }
  const Bert& bert() const { return bert_; }
  /// Logits for each row: [rows] with the sigmoid head, [rows, num_labels] with softmax.
  Tensor logits(const BertInput& input, bool train) const;
  Tensor logits(const data::Batch& batch, bool train) const;
  /// Sum of the rows' losses / `items` (those of the whole accumulation window), f32. Labels: f32 for the sigmoid head,
  /// i64 for softmax; see label_dtype().
  Tensor loss(const data::Batch& batch, double items, bool train) const;
  Tensor loss_of(const Tensor& logits, const Tensor& labels, double items) const;
  DType label_dtype() const { return config_.head == Head::sigmoid ? DType::f32 : DType::i64; }
  /// Class probabilities [rows][num_labels], in double precision.
  std::vector<std::vector<double>> probabilities(const Tensor& logits) const;

 private:
  ClassifierConfig config_;
  Bert bert_;
  nn::Dropout dropout_;
  nn::Linear classifier_;
};

}  // namespace mixtape::models
