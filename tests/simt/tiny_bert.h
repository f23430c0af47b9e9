// The BERT whose training steps the tests of devices take: odd sizes, two layers, one product of each kind.
#pragma once

#include "models/classifier.h"

namespace mixtape::simt_tests {

inline models::ClassifierConfig tiny_bert() {
  models::ClassifierConfig config;
  config.bert.vocab_size = 40;
  config.bert.hidden_size = 24;
  config.bert.num_hidden_layers = 2;
  config.bert.num_attention_heads = 3;
  config.bert.intermediate_size = 40;
  config.bert.max_position_embeddings = 12;
  config.pooling = models::Pooling::pooler;
  return config;
}

}  // namespace mixtape::simt_tests
