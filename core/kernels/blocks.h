// Blocks of any dtype, by a switch at run time: one call a block, so the switch costs nothing.
#pragma once

#include "core/kernels/convert.h"
#include "core/view.h"

namespace mixtape::kernels {

inline constexpr int64_t block_size = 512;

/// `n` elements from `offset` at `stride` as M (float or double): in place when they already are, else in `buffer`.
template <class M>
const M* load_any(const View& v, int64_t offset, int64_t stride, int64_t n, M* buffer);
/// Where `n` results can be computed: in `v` itself when it needs no conversion, else `buffer`.
template <class M>
M* target_any(const View& v, int64_t offset, int64_t stride, M* buffer);
/// Stores a block, rounded once; nothing to do when target_any gave the place itself.
template <class M>
void store_any(const M* block, const View& v, int64_t offset, int64_t stride, int64_t n);

/// store_any of at most block_size elements at stride 1 for what is not read again soon: 16-bit types go past the
/// caches, which saves the reading of the lines that they replace. Call fence_streams() when all are stored, on the
/// same thread.
template <class M>
void stream_any(const M* block, const View& v, int64_t offset, int64_t n);
void fence_streams();

extern template const float* load_any(const View&, int64_t, int64_t, int64_t, float*);
extern template const double* load_any(const View&, int64_t, int64_t, int64_t, double*);
extern template void store_any(const float*, const View&, int64_t, int64_t, int64_t);
extern template void store_any(const double*, const View&, int64_t, int64_t, int64_t);
extern template void stream_any(const float*, const View&, int64_t, int64_t);
extern template void stream_any(const double*, const View&, int64_t, int64_t);

template <class M>
M* target_any(const View& v, int64_t offset, int64_t stride, M* buffer) {
  return v.dtype == dtype_of<M> && stride == 1 ? v.as<M>() + offset : buffer;
}

}  // namespace mixtape::kernels
