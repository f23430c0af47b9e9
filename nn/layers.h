// The layers that are parameters and one op call.
#pragma once

#include "core/factory.h"
#include "nn/module.h"
#include "ops/ops.h"

namespace mixtape::nn {

/// x·Wᵀ + b: […, in] -> […, out].
class Linear : public Module {
 public:
  Linear(int64_t in, int64_t out)
      : weight_(add_parameter("weight", zeros({out, in}))), bias_(add_parameter("bias", zeros({out}))) {}
  Tensor forward(const Tensor& x) const {
    const Scope scope = enter();
    return ops::linear(x, weight_, bias_);
  }
  /// Of tensors that are there already.
  Linear(Tensor weight, Tensor bias)
      : weight_(add_parameter("weight", std::move(weight))), bias_(add_parameter("bias", std::move(bias))) {}
  /// Each layer's output for the same x.
  static Tensors joint(const Tensor& x, std::initializer_list<const Linear*> layers) {
    Tensors weights, biases;
    for (const Linear* layer : layers) {
      weights.push_back(layer->weight_);
      biases.push_back(layer->bias_);
    }
    return ops::joint_linear(x, weights, biases);
  }
  /// outer(gelu(inner(x))).
  friend Tensor feed_forward(const Tensor& x, const Linear& inner, const Linear& outer) {
    const Scope scope("feed_forward");
    return ops::feed_forward(x, inner.weight_, inner.bias_, outer.weight_, outer.bias_);
  }

 private:
  Tensor weight_, bias_;
};

/// Rows of a table: ids […] -> […, width].
class Embedding : public Module {
 public:
  Embedding(int64_t rows, int64_t width) : weight_(add_parameter("weight", zeros({rows, width}))) {}
  Tensor forward(const Tensor& ids) const {
    const Scope scope = enter();
    return ops::embedding(weight_, ids);
  }
  /// The same rows for an op that reads them itself.
  ops::Lookup lookup(const Tensor& ids) const { return {weight_, ids}; }

 private:
  Tensor weight_;
};

/// Normalisation over the last axis: […, width] -> […, width].
class LayerNorm : public Module {
 public:
  LayerNorm(int64_t width, double eps)
      : eps_(eps), weight_(add_parameter("weight", full({width}, 1.0))), bias_(add_parameter("bias", zeros({width}))) {}
  Tensor forward(const Tensor& x) const {
    const Scope scope = enter();
    return ops::layer_norm(x, weight_, bias_, eps_);
  }
  /// Of dropout(x, p) + residual; `places` as in ops::dropout.
  Tensor forward_residual(const Tensor& x, const Tensor& residual, double p, const Tensor& places) const {
    const Scope scope = enter();
    return ops::dropout_add_layer_norm(x, residual, weight_, bias_, p, eps_, places);
  }
  /// dropout(norm(words + types + positions), p, places), in the scope of the caller: there is no input to normalise.
  friend Tensor embed(const ops::Lookup& words, const ops::Lookup& types, const ops::Lookup& positions,
                      const LayerNorm& norm, double p, const Tensor& places) {
    return ops::embed_layer_norm(words, types, positions, norm.weight_, norm.bias_, p, norm.eps_, places);
  }

 private:
  double eps_;
  Tensor weight_, bias_;
};

/// Zeroes with probability p in training, and nothing else.
class Dropout : public Module {
 public:
  explicit Dropout(double p) : p_(p) {}
  Tensor forward(const Tensor& x, bool train, const Tensor& places = {}) const {
    if (!train) return x;
    const Scope scope = enter();  // also for p = 0: it takes its draw, so the masks of the others stay what they are
    return ops::dropout(x, p_, places);
  }

 private:
  double p_;
};

}  // namespace mixtape::nn
