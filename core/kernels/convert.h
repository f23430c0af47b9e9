// Blocks of elements between storage types and the types that formulas compute in.
#pragma once

#include <type_traits>

#include "core/dtype.h"

namespace mixtape::kernels {

// Contiguous conversions, vectorised (F16C for half). They round once, to nearest even.
void to_float(const half* in, float* out, int64_t n);
void to_float(const bf16* in, float* out, int64_t n);
void from_float(const float* in, half* out, int64_t n);
void from_float(const float* in, bf16* out, int64_t n);

/// `n` elements at `stride`, as math type M: in place when they already are, else through `buffer`.
template <class T, class M>
const M* load_block(const T* in, int64_t stride, int64_t n, M* buffer) {
  if constexpr (std::is_same_v<T, M>) {
    if (stride == 1) return in;
  } else if constexpr (std::is_same_v<M, float> && (std::is_same_v<T, half> || std::is_same_v<T, bf16>)) {
    if (stride == 1) return to_float(in, buffer, n), buffer;
  }
  if (stride == 1) {
    for (int64_t i = 0; i < n; ++i) buffer[i] = convert_to<M>(in[i]);
    return buffer;
  }
  if (stride == 0) {
    const M value = convert_to<M>(*in);
    for (int64_t i = 0; i < n; ++i) buffer[i] = value;
    return buffer;
  }
  for (int64_t i = 0; i < n; ++i) buffer[i] = convert_to<M>(in[i * stride]);
  return buffer;
}

/// Writes `n` results at `stride`, rounded once; nothing to do when `block` is the output itself.
template <class T, class M>
void store_block(const M* block, T* out, int64_t stride, int64_t n) {
  if constexpr (std::is_same_v<T, M>) {
    if (block == out) return;
  } else if constexpr (std::is_same_v<M, float> && (std::is_same_v<T, half> || std::is_same_v<T, bf16>)) {
    if (stride == 1) return from_float(block, out, n);
  }
  for (int64_t i = 0; i < n; ++i) out[i * stride] = convert_to<T>(block[i]);
}

}  // namespace mixtape::kernels
