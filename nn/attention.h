// Multi-head self-attention (Vaswani et al., "Attention is all you need", 2017).
#pragma once

#include "nn/layers.h"

namespace mixtape::nn {

class MultiHeadAttention : public Module {
 public:
  /// `width` must be a multiple of `heads`; throws E-MODEL-CONFIG (kind config) otherwise.
  MultiHeadAttention(int64_t width, int64_t heads, double dropout);
  /// x [batch, seq, width]; mask [batch, 1, 1, seq] bool, true where a key may be seen, or absent.
  Tensor forward(const Tensor& x, const Tensor& mask, bool train) const;

 private:
  Tensor heads_of(const Tensor& x, const Dims& order) const;

  int64_t heads_, head_size_;
  Linear query_, key_, value_, output_;
  Dropout dropout_;
};

}  // namespace mixtape::nn
