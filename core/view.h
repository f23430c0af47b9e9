// View: what kernels see. Plain data with DLPack's fields (data, device, dtype, ndim, shape, strides), owns nothing.
#pragma once

#include "core/device.h"
#include "core/dtype.h"
#include "core/shape.h"
#include "core/small.h"

namespace mixtape {

struct View {
  void* data =
      nullptr;  ///< first element, the storage offset applied; null for an absent optional input or a result not kept
  DType dtype = DType::f32;
  Device device;
  Shape shape;
  Strides strides;  ///< in elements

  explicit operator bool() const { return data != nullptr; }
  int64_t numel() const { return shape.numel(); }
  bool contiguous() const { return is_contiguous(shape, strides); }
  template <class T>
  T* as() const {
    return static_cast<T*>(data);
  }
  /// The same bytes read as the (broadcast) shape `target`.
  View broadcast_to(const Shape& target) const {
    View v = *this;
    v.strides = broadcast_strides(shape, strides, target);
    v.shape = target;
    return v;
  }
};
using Views = Small<View, 4>;

/// Whether no view lies on another device than the CPU; absent ones do not.
template <class... V>
bool on_cpu(const V&... views) {
  return (views.device.is_cpu() && ...);
}

}  // namespace mixtape
