// Multi-head self-attention (Vaswani et al., "Attention is all you need", 2017).
#pragma once

#include "nn/layers.h"
#include "nn/token_layout.h"

namespace mixtape::nn {

class MultiHeadAttention : public Module {
 public:
  /// `width` must be a multiple of `heads`; throws E-MODEL-CONFIG (kind config) otherwise.
  MultiHeadAttention(int64_t width, int64_t heads, double dropout);
  /// x [tokens, width], laid out as `layout` says; queries: x itself, or the rows of its sequences' first tokens.
  /// Returns the shape of `queries`.
  Tensor forward(const Tensor& queries, const Tensor& x, const TokenLayout& layout, bool train) const;

 private:
  int64_t heads_;
  Linear query_, key_, value_, output_;
  double dropout_;
};

}  // namespace mixtape::nn
