// BERT: embeddings, encoder, pooler (Devlin et al., 2018).
#pragma once

#include <memory>
#include <vector>

#include "models/bert_config.h"
#include "nn/encoder_layer.h"

namespace mixtape::models {

/// What an encoder reads: [batch, seq], padded, or all tokens end to end as [tokens].
struct BertInput {
  Tensor ids;                  ///< i64
  Tensor token_types = {};     ///< i64, or absent: all 0
  Tensor attention_mask = {};  ///< bool, true where a token stands, or absent: everywhere; not beside offsets
  Tensor offsets = {};  ///< i64 [batch + 1]: sequence s is ids[offsets[s]] to ids[offsets[s + 1]]; absent: padded
  int64_t longest = 0;  ///< beside offsets: what the batch would be padded to
};

class BertEmbeddings : public nn::Module {
 public:
  explicit BertEmbeddings(const BertConfig& config);
  /// [tokens, hidden]. Throws E-MODEL-INPUT for sequences longer than the position table.
  Tensor forward(const BertInput& input, const nn::TokenLayout& layout, bool train) const;

 private:
  int64_t positions_;
  nn::Embedding word_, position_, token_type_;
  nn::LayerNorm norm_;
  double dropout_;
};

class Bert : public nn::Module {
 public:
  /// Weights as their layers make them (zeros, ones): draw or load them. `with_pooler` adds "pooler.dense".
  Bert(const BertConfig& config, bool with_pooler, bool activation_checkpointing);

  struct Output {
    Tensor embeddings;           ///< the shape of ids, and [.., hidden]
    std::vector<Tensor> layers;  ///< the same of each layer; the last is the last hidden state
  };
  Output forward(const BertInput& input, bool train) const;
  /// [batch, hidden]: the last hidden state of each sequence's first token, through the pooler when there is one. The
  /// last layer computes no other.
  Tensor pooled(const BertInput& input, bool train) const;

 private:
  Tensor run_layer(size_t i, const Tensor& x, const nn::TokenLayout& layout, bool first, bool train) const;

  BertEmbeddings embeddings_;
  std::vector<std::unique_ptr<nn::TransformerEncoderLayer>> layers_;
  std::unique_ptr<nn::Linear> pooler_;
  int64_t width_;
  bool activation_checkpointing_;
};

}  // namespace mixtape::models
