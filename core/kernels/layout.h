// Views made from views: transposed matrices, merged rows, sections. Only numbers move.
#pragma once

#include <algorithm>
#include <utility>

#include "core/dtype.h"
#include "core/view.h"

namespace mixtape::kernels {

/// The last two axes exchanged.
inline View transposed(View v) {
  const int r = v.shape.rank();
  std::swap(v.shape[r - 1], v.shape[r - 2]);
  std::swap(v.strides[r - 1], v.strides[r - 2]);
  return v;
}

/// Whether the leading axes of [..., n] can be read as the rows of one matrix. A vector is one row.
inline bool merges_to_rows(const View& v) {
  int64_t rows = 1, stride = 0;  // of the rows behind the axis
  for (int axis = v.shape.rank() - 2; axis >= 0; --axis) {
    if (v.shape[axis] == 1) continue;
    if (rows == 1) stride = v.strides[axis];
    if (v.strides[axis] != stride * rows) return false;
    rows *= v.shape[axis];
  }
  return true;
}

/// [..., n] as the matrix [rows, n]. Expects merges_to_rows(v), which every contiguous view fulfils.
inline View as_rows(const View& v) {
  View flat = v;
  int64_t rows = 1, stride = std::max<int64_t>(v.shape.back(), 1) * v.strides.back();
  for (int axis = v.shape.rank() - 2; axis >= 0; --axis) {
    if (rows == 1 && v.shape[axis] != 1) stride = v.strides[axis];
    rows *= v.shape[axis];
  }
  flat.shape = {rows, v.shape.back()};
  flat.strides = {stride, v.strides.back()};
  return flat;
}

/// [..] as [.., 1]: one number beside each row. An absent view stays absent.
inline View as_column(View v) {
  v.shape.push_back(1);
  v.strides.push_back(1);
  return v;
}

/// `count` places along one axis, from `start` at `step`.
inline View section(View v, int axis, int64_t start, int64_t count, int64_t step = 1) {
  v.data = static_cast<char*>(v.data) + start * v.strides[axis] * size_of(v.dtype);
  v.shape[axis] = count;
  v.strides[axis] *= step;
  return v;
}

/// Contiguous views that follow each other in memory, as one view of all their rows; absent when they do not.
inline View joined(const Views& pieces) {
  View whole = pieces[0];
  for (int i = 0; i < pieces.size(); ++i) {
    const View& piece = pieces[i];
    if (!piece || !piece.contiguous() || piece.dtype != whole.dtype) return {};
    if (i == 0) continue;
    if (piece.data != static_cast<char*>(whole.data) + whole.numel() * size_of(whole.dtype)) return {};
    whole.shape[0] += piece.shape[0];
  }
  return whole;
}

/// `axis` moved to the front, the others in their order.
inline View axis_first(View v, int axis) {
  const int64_t size = v.shape[axis], stride = v.strides[axis];
  v.shape.erase(axis);
  v.strides.erase(axis);
  v.shape.insert(0, size);
  v.strides.insert(0, stride);
  return v;
}

}  // namespace mixtape::kernels
