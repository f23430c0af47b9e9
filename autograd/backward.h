// backward: one sweep over the tape, newest node first.
#pragma once

#include <functional>

#include "autograd/node.h"

namespace mixtape::autograd {

struct BackwardOptions {
  bool retain_graph = false;  ///< keep saved tensors for another sweep
  bool create_graph = false;  ///< record the sweep itself (implies retain_graph)
  double scale = 1.0;         ///< seed of the sweep; every leaf is stamped 1/scale
  Tensor factor = {};         ///< 1/scale that a device alone knows (Gradient::factor); `scale` is 1 then
  /// Called once for each leaf when its gradient is complete, so that others can overlap communication.
  std::function<void(const Tensor& leaf)> on_leaf_ready = {};
};

/// A loss with the scale that its sweep starts from. The loss itself stays unscaled: nobody can log 65536 times it.
struct ScaledLoss {
  Tensor loss;
  double scale = 1.0;
  Tensor seed = {};    ///< where a device alone knows the scale: what the sweep starts from, like `loss`
  Tensor factor = {};  ///< and 1/scale, one f64
};

/// Adds the gradients of a one-element `loss` to its leaves. Throws E-TAPE when there is no graph or it was freed.
void backward(const Tensor& loss, const BackwardOptions& options = {});
void backward(const ScaledLoss& loss, BackwardOptions options = {});
/// The same from any outputs with given gradients.
void backward(const Tensors& outputs, const Tensors& seeds, const BackwardOptions& options = {});
/// d(output)/d(input) for each input, multiplied by `scale`; leaves keep what they had. Absent where nothing flows.
/// Inputs may be leaves or results of ops. `seeds` may be empty for one-element outputs.
Tensors grad(const Tensors& outputs, const Tensors& inputs, const BackwardOptions& options = {}, Tensors seeds = {});

class Sweep;

/// What an op's backward sees.
class Grads {
 public:
  Grads(Sweep& sweep, Node& node, Tensors dys)
      : sweep_(sweep), node_(node), dys_(std::move(dys)), rows_(node.edges.size()) {}
  const Tensor& dy(int i = 0) const { return dys_[i]; }  ///< gradient of output i; absent when nothing arrived
  int count() const { return node_.edges.size(); }
  bool needs_grad(int i) const { return static_cast<bool>(node_.edges[i]); }
  const TensorMeta& meta(int i) const { return node_.input_metas[i]; }
  bool has(int i) const { return i < node_.inputs.size() && node_.inputs[i].storage; }
  Tensor in(int i) const;                                           ///< saved input i; throws unless saved and unmoved
  Tensor out(int i) const;                                          ///< saved output i
  Tensor extra(int i) const { return out(node_.extras_from + i); }  ///< the i-th saved-only output
  /// Whether the gradient of input i may be given as some of its rows: it goes to a leaf that has none yet, and nobody
  /// else asks for it.
  bool takes_rows(int i) const;
  /// The gradient of input i, in what backward returns, is [k, …]: these rows (i64 [k], ascending, each once) of the
  /// whole, whose other rows are 0. Only where takes_rows(i).
  void give_rows(int i, Tensor rows);
  const Tensor& rows(int i) const { return rows_[i]; }  ///< absent: all
  bool create_graph() const;                            ///< use ops instead of kernels: this backward is being recorded
  /// Continues the running sweep (same scale, sinks and flags) from `roots`; returns the gradients of `wanted`.
  Tensors inner(const Tensors& roots, const Tensors& seeds, const Tensors& wanted);

 private:
  Tensor unpack(const Saved& saved, const char* what, int i) const;
  Sweep& sweep_;
  Node& node_;
  Tensors dys_, rows_;
};

}  // namespace mixtape::autograd
