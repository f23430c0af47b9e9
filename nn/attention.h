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
  MultiHeadAttention(int64_t heads, double dropout, const Tensors& weights, const Tensors& biases, int64_t width);

  /// Queries, keys and values.
  Tensors project(const Tensor& queries, const Tensor& x) const;

  int64_t heads_;
  Linear query_, key_, value_, output_;  // the first three lie end to end: one product makes all
  double dropout_;
};

}  // namespace mixtape::nn
