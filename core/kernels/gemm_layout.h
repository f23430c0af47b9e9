// What every engine of a matrix product asks of its views: whether they fit, how batch axes become one list of
// products, and which strides a library can read.
#pragma once

#include <algorithm>

#include "core/error.h"
#include "core/kernels/gemm.h"

namespace mixtape::kernels::gemm_layout {

[[noreturn]] inline void fail_shapes(const View& a, const View& b, const View& c, const char* who) {
  fail(ErrorKind::internal, "E-GEMM",
       message(who, ": ", a.shape.str(), " x ", b.shape.str(), " does not give ", c.shape.str()));
}

/// Throws E-GEMM in the name of `who`.
inline void check(const View& a, const View& b, const View& c, const GemmOptions& options, const char* who) {
  const int rank = c.shape.rank();
  if (a.shape.rank() < 2 || b.shape.rank() < 2 || rank < 2) fail_shapes(a, b, c, who);
  const int64_t m = c.shape[rank - 2], n = c.shape[rank - 1], k = a.shape.back();
  if (a.shape[a.shape.rank() - 2] != m || b.shape[b.shape.rank() - 2] != k || b.shape.back() != n)
    fail_shapes(a, b, c, who);
  const bool c_fits = c.dtype == a.dtype || c.dtype == wide(a.dtype);
  if (a.dtype != b.dtype || !c_fits) {
    fail(ErrorKind::internal, "E-GEMM",
         message(who, ": ", name_of(a.dtype), " x ", name_of(b.dtype), " -> ", name_of(c.dtype)));
  }
  if (options.bias && (options.bias.dtype != wide(a.dtype) || !(options.bias.shape == Shape{n}))) {
    fail(ErrorKind::internal, "E-GEMM", message(who, ": the bias must be an f32 (f64) vector of n elements"));
  }
}

/// Operands of one rank, the batch axes in front of m·n those of c.
struct Batched {
  View a, b, c;
};
inline Batched align(const View& a, const View& b, const View& c) {
  const auto widen = [&](const View& v, int64_t rows, int64_t columns) {
    Shape target = c.shape;
    target[c.shape.rank() - 2] = rows;
    target[c.shape.rank() - 1] = columns;
    return v.broadcast_to(target);
  };
  const int64_t m = c.shape[c.shape.rank() - 2], n = c.shape.back(), k = a.shape.back();
  return {widen(a, m, k), widen(b, k, n), c};
}

inline bool rows_merge(const View& v) {
  for (int axis = 0; axis + 2 < v.shape.rank(); ++axis) {
    if (v.shape[axis] != 1 && v.strides[axis] != v.strides[axis + 1] * v.shape[axis + 1]) return false;
  }
  return true;
}
inline bool same_for_all_batches(const View& v) {
  for (int axis = 0; axis + 2 < v.shape.rank(); ++axis) {
    if (v.shape[axis] != 1 && v.strides[axis] != 0) return false;
  }
  return true;
}
inline View merged_rows(const View& v) {
  View flat = v;
  const int rank = v.shape.rank();
  flat.shape = {v.numel() / std::max<int64_t>(v.shape.back(), 1), v.shape.back()};
  flat.strides = {v.strides[rank - 2], v.strides[rank - 1]};
  return flat;
}
inline View last_two(const View& v) {
  View flat = v;
  const int rank = v.shape.rank();
  flat.shape = {v.shape[rank - 2], v.shape[rank - 1]};
  flat.strides = {v.strides[rank - 2], v.strides[rank - 1]};
  return flat;
}
/// Where b has no batch of its own, the rows of all batches become one matrix. Expects k > 0.
inline Batched merge(const Batched& all) {
  if (!same_for_all_batches(all.b) || !rows_merge(all.a) || !rows_merge(all.c)) return all;
  return {merged_rows(all.a), last_two(all.b), merged_rows(all.c)};
}

// Of two-dimensional views. A stride along an axis of size 1 is never walked, but the engines read it as a leading
// dimension.
inline bool is_row_major(const View& v) { return v.strides[1] == 1 && v.strides[0] >= v.shape[1]; }
inline bool is_transposed(const View& v) { return v.strides[0] == 1 && v.strides[1] >= v.shape[0]; }
inline bool has_unit_stride(const View& v) { return is_row_major(v) || is_transposed(v); }

}  // namespace mixtape::kernels::gemm_layout
