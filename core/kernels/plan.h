// Plan: the dimensions that a loop really has to walk, shared by all its operands.
#pragma once

#include "core/view.h"

namespace mixtape::kernels {

inline constexpr int max_operands = 12;

/// Dimensions of size 1 are dropped, neighbours that every operand walks alike are merged; order is kept.
struct Plan {
  int rank = 0;
  int64_t size[max_rank] = {};
  int64_t stride[max_operands][max_rank] = {};  // in elements

  int64_t count() const {
    int64_t product = 1;
    for (int i = 0; i < rank; ++i) product *= size[i];
    return product;
  }
  /// Offset of operand `which` at the row-major position `index`.
  int64_t offset(int which, int64_t index) const {
    int64_t at = 0;
    for (int i = rank - 1; i >= 0; --i) {
      at += index % size[i] * stride[which][i];
      index /= size[i];
    }
    return at;
  }
  /// Cuts off the last dimension (size 1 and stride 0 when there is none) and returns its size.
  int64_t split_inner(int64_t* inner_strides, int operands);
};

/// Plan over `shape`; each view must broadcast to it. Null views are skipped (stride 0).
Plan make_plan(const Shape& shape, const View* views, int operands);
/// Only the dimensions of `shape` for which `keep` has a set bit.
Plan make_plan(const Shape& shape, const View* views, int operands, uint32_t keep);

}  // namespace mixtape::kernels
