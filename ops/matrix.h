// What the matrix products share: tensors as the rows of one matrix.
#pragma once

#include <algorithm>

#include "core/factory.h"
#include "core/kernels/layout.h"
#include "ops/ops.h"

namespace mixtape::ops {

/// `t` when kernels::as_rows can read it with a unit stride, else a contiguous copy.
inline Tensor packed_rows(const Tensor& t) {
  const View v = t.view();
  return kernels::merges_to_rows(v) && v.strides.back() == 1 ? t : copy_of(t);
}

/// [.., n] -> [rows, n], as an op: for backwards under create_graph.
inline Tensor rows_of(const Tensor& t) {
  Shape leading = t.shape();
  leading.erase(leading.rank() - 1);
  return reshape(t, {leading.numel(), t.shape().back()});
}

}  // namespace mixtape::ops
