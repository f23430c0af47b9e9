// Tensor: a handle with value semantics to {storage, geometry, place on the tape}. Free functions do the work.
#pragma once

#include <cstring>
#include <memory>
#include <string>

#include "core/error.h"
#include "core/storage.h"
#include "core/view.h"

namespace mixtape {

namespace autograd {
class Node;
}
struct Leaf;

/// How bytes of a storage are read.
struct Geometry {
  Shape shape;
  Strides strides;
  int64_t offset = 0;  ///< in elements
  DType dtype = DType::f32;
};

class Tensor {
 public:
  Tensor() = default;  ///< an absent tensor: what an optional input that is not given looks like
  Tensor(Storage storage, Geometry geometry);

  explicit operator bool() const { return impl_ != nullptr; }
  const Shape& shape() const { return impl().geometry.shape; }
  const Strides& strides() const { return impl().geometry.strides; }
  int rank() const { return shape().rank(); }
  int64_t size(int64_t axis) const { return shape()[normalize_axis(axis, rank(), "size")]; }
  int64_t numel() const { return shape().numel(); }
  DType dtype() const { return impl().geometry.dtype; }
  Device device() const { return impl().storage.device(); }
  const Storage& storage() const { return impl().storage; }
  const Geometry& geometry() const { return impl().geometry; }
  bool contiguous() const { return is_contiguous(shape(), strides()); }
  View view() const;

  /// First element as T (the dtype's own type); for contiguous tensors an array. Throws E-DEVICE-MIXED for a tensor of
  /// a device, whose memory the host must not touch.
  template <class T>
  T* data() const {
    check_type(dtype_of<T>);
    return static_cast<T*>(view().data);
  }
  /// The value of a one-element tensor, widened to double. Throws E-SHAPE for any other size.
  double item() const;

  // --- the tape ---
  bool requires_grad() const { return impl_ && (impl_->node || impl_->leaf); }
  /// Makes this tensor a leaf of the tape: sweeps write its gradient. Returns *this. Throws on an op's result.
  Tensor& set_requires_grad(bool on = true);
  bool is_leaf() const { return impl_ && impl_->leaf; }
  Leaf& leaf() const;  ///< gradient pair, shadow and name; throws E-TAPE when this is no leaf
  /// The gradient of the last sweeps, true size (raw × multiplier); absent when there is none.
  Tensor grad() const;
  /// The same bytes without a place on the tape.
  Tensor detach() const;
  /// Gives a leaf another dtype under all its handles, values rounded once: how the parameters of a model become 16-bit
  /// ones. Its gradient and shadow go. Throws E-TAPE when this is no leaf.
  void store_as(DType dtype) const;
  /// Moves a leaf, or a tensor without a place on the tape, to another device under all its handles; parts of a whole
  /// stay beside each other. Its gradient and shadow go. Throws E-TAPE for an op's result.
  void move_to(Device device) const;
  const std::shared_ptr<autograd::Node>& node() const { return impl().node; }
  int output_index() const { return impl().output_index; }
  void set_node(std::shared_ptr<autograd::Node> node, int output_index);
  bool same_as(const Tensor& other) const { return impl_ == other.impl_; }
  /// Nobody else holds this handle or its bytes: they may be written in place.
  bool unique() const { return impl_.use_count() == 1 && impl_->storage.use_count() == 1; }
  const void* identity() const { return impl_.get(); }

 private:
  struct Impl {
    Storage storage;
    Geometry geometry;
    std::shared_ptr<autograd::Node> node;  // the op that made it, when recorded
    int output_index = 0;
    std::shared_ptr<Leaf> leaf;
  };
  Impl& impl() const {
    if (!impl_) fail_absent();
    return *impl_;
  }
  [[noreturn]] static void fail_absent();
  void check_type(DType wanted) const;

  std::shared_ptr<Impl> impl_;
};
using Tensors = Small<Tensor, 4>;

}  // namespace mixtape
