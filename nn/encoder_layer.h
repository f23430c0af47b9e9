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
  /// x [batch, seq, width] -> the same; mask as in MultiHeadAttention.
  Tensor forward(const Tensor& x, const Tensor& mask, bool train) const;

 private:
  MultiHeadAttention attention_;
  LayerNorm attention_norm_;
  Linear intermediate_, output_;
  LayerNorm output_norm_;
  Dropout attention_dropout_, output_dropout_;
};

}  // namespace mixtape::nn
