// Node: one recorded op. There is one class for all of them.
#pragma once

#include <memory>

#include "core/context.h"
#include "core/op.h"

namespace mixtape::autograd {

/// Where a gradient goes: output `output` of `node`, or a leaf. Edges own the graph; saved tensors never do.
struct Edge {
  std::shared_ptr<Node> node;
  int output = 0;
  Tensor leaf;
  explicit operator bool() const { return node || leaf; }
};
Edge edge_of(const Tensor& tensor);

/// Bytes kept for backward, with the version that they had.
struct Saved {
  Storage storage;
  Geometry geometry;
  uint32_t version = 0;
};

/// Shape and dtype, to check gradients against.
struct TensorMeta {
  Shape shape;
  DType dtype = DType::f32;
};

class Node : public std::enable_shared_from_this<Node> {
 public:
  Node() = default;
  /// Unlinks the graph behind it iteratively: a chain of 200,000 nodes must not recurse 200,000 destructors deep. Nor
  /// does it allocate: that is how a run gets out of a failed allocation.
  ~Node();
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  const OpSchema* op = nullptr;
  std::shared_ptr<const void> attrs;
  Small<Edge, 4> edges;             ///< one for each input; empty where no gradient goes
  Small<Saved, 4> inputs, outputs;  ///< saved bytes by position; no storage where nothing is saved
  Small<TensorMeta, 4> input_metas, output_metas;
  int64_t order = 0;    ///< 1 + the largest order of its inputs
  Context modes;        ///< what the forward ran under: precision rule, coordinates, scope
  int extras_from = 0;  ///< outputs from here on are saved-only
  bool freed = false;   ///< a sweep without retain_graph has been here

  std::string place() const;  ///< "linear (in encoder.layer.0)"
  void free_saved();

 private:
  std::shared_ptr<Node> next_loose_;  // while nodes are being unlinked: the next one that nobody else owns
};

}  // namespace mixtape::autograd
