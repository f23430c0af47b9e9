// One encoder layer with the normalisation after the residual, as BERT has it (Devlin et al., 2018).
#pragma once

#include "nn/attention.h"

namespace mixtape::nn {

struct EncoderLayerConfig {
  int64_t width = 768, heads = 12, intermediate = 3072;
  double dropout = 0.1, attention_dropout = 0.1, layer_norm_eps = 1e-12;
};

class TransformerEncoderLayer : public Module {
 public:
  explicit TransformerEncoderLayer(const EncoderLayerConfig& config);
  /// x [tokens, width] -> the same.
  Tensor forward(const Tensor& x, const TokenLayout& layout, bool train) const;
  /// x [tokens, width] -> [sequences, width]: what `forward` gives for the first token of each sequence, at the price
  /// of keys and values for all tokens and of everything else for those alone.
  Tensor forward_first(const Tensor& x, const TokenLayout& layout, bool train) const;

 private:
  Tensor forward(const Tensor& queries, const Tensor& x, const TokenLayout& layout, const Tensor& places,
                 bool train) const;

  MultiHeadAttention attention_;
  LayerNorm attention_norm_;
  Linear intermediate_, output_;
  LayerNorm output_norm_;
  double dropout_;
};

}  // namespace mixtape::nn
