// The hyper-parameters of a BERT encoder, under Hugging Face's names.
#pragma once

#include <cstdint>
#include <string>

namespace mixtape::models {

struct BertConfig {
  int64_t vocab_size = 30522;
  int64_t hidden_size = 768;
  int64_t num_hidden_layers = 12;
  int64_t num_attention_heads = 12;
  int64_t intermediate_size = 3072;
  int64_t max_position_embeddings = 512;
  int64_t type_vocab_size = 2;
  double layer_norm_eps = 1e-12;
  double hidden_dropout_prob = 0.1;
  double attention_probs_dropout_prob = 0.1;
  double initializer_range = 0.02;  ///< standard deviation of fresh weights
};

enum class Pooling { cls, pooler };    ///< last hidden state at [CLS], or tanh(W·that + b)
enum class Head { sigmoid, softmax };  ///< one logit with BCE, or one logit a class with cross-entropy

struct ClassifierConfig {
  BertConfig bert;
  Pooling pooling = Pooling::cls;
  Head head = Head::sigmoid;
  int64_t num_labels = 2;
  double head_dropout = 0.1;
  bool activation_checkpointing = false;
};

/// What makes these sizes no model: "num_attention_heads = 5: must be a divisor of hidden_size 16"; empty when they do.
std::string fault_of(const BertConfig& config);
/// Throws E-MODEL-CONFIG (kind config) with that fault of a `model.config`.
void check(const BertConfig& config);

}  // namespace mixtape::models
