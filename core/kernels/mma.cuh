// The wrappers of the tensor cores: d = a·b + d for a [16, 16], b [16, 8] of a 16-bit type and d [16, 8] in f32, held
// by the 32 lanes of a warp in the fragments of PTX ISA, "Matrix fragments for mma.m16n8k16 with floating point type";
// and what brings numbers into these fragments. Each has a portable twin that exchanges registers; it is what runs
// where there is no tensor core.
//
// Lane l holds, with row r = l/4 and column pair c = 2·(l%4), and in every register two neighbours along k, the lower
// first:
//   a[4]  rows r, r + 8, r, r + 8 at k = c, c, c + 8, c + 8
//   b[2]  column r at k = c, c + 8
//   d[4]  (r, c), (r, c + 1), (r + 8, c), (r + 8, c + 1)
#pragma once

#include "core/dtype.h"
#include "core/kernels/launch.cuh"

#if defined(__CUDACC__)
#define MIXTAPE_UNROLL _Pragma("unroll")           // arrays of registers need constant places
#define MIXTAPE_UNROLL_BY_TWO _Pragma("unroll 2")  // more of them than there are
#else
#define MIXTAPE_UNROLL
#define MIXTAPE_UNROLL_BY_TWO
#endif

namespace mixtape::kernels::device {

/// What every lane of the warp holds. Orders no memory, as a shuffle.
inline __device__ void values_of_warp(uint64_t mine, uint64_t (&all)[warp_threads]) {
#if defined(MIXTAPE_SIMT)
  simt::warp_values(mine, all, __builtin_FILE(), __builtin_LINE());
#else
  for (unsigned lane = 0; lane < warp_threads; ++lane)
    all[lane] = __shfl_sync(whole_warp, mine, static_cast<int>(lane));
#endif
}

/// The product by exchange: each lane takes the numbers of its four results from their owners.
template <class T>
__device__ void mma_by_exchange(const uint32_t (&a)[4], uint32_t b_low, uint32_t b_high, float (&d)[4]) {
  static_assert(sizeof(T) == 2, "half or bf16");
  const int lane = static_cast<int>(threadIdx.x % warp_threads), row = lane / 4, column = lane % 4 * 2;
  uint64_t left[2][warp_threads], right[warp_threads];  // of a: rows r and r + 8
  values_of_warp(uint64_t{a[0]} | uint64_t{a[1]} << 32, left[0]);
  values_of_warp(uint64_t{a[2]} | uint64_t{a[3]} << 32, left[1]);
  values_of_warp(uint64_t{b_low} | uint64_t{b_high} << 32, right);
  const auto number = [](uint64_t words, int place) { return to_float(T{static_cast<uint16_t>(words >> 16 * place)}); };
  for (int k = 0; k < 16; ++k) {
    const int owner = k % 8 / 2, upper = k / 8, which = k % 2;  // the owner among the four lanes of a row
    const uint64_t x = left[upper][row * 4 + owner];
    const float above = number(x, which), below = number(x, 2 + which);
    const float one = number(right[column * 4 + owner], 2 * upper + which);
    const float other = number(right[(column + 1) * 4 + owner], 2 * upper + which);
    d[0] += above * one;
    d[1] += above * other;
    d[2] += below * one;
    d[3] += below * other;
  }
}

/// Four matrices [8, 8] of 16-bit numbers from shared memory: lane l gives the address of row l%8, aligned to 16 bytes,
/// of matrix l/8. out[m] holds two neighbours of matrix m: of its row l/4, or with `transposed` of its column l/4.
template <class T, bool transposed>
__device__ void load_matrices_by_exchange(const T* row_of_lane, uint32_t (&out)[4]) {
  const int lane = static_cast<int>(threadIdx.x % warp_threads), row = lane / 4, column = lane % 4 * 2;
  uint64_t address[warp_threads];
  values_of_warp(reinterpret_cast<uintptr_t>(row_of_lane), address);
  const auto number = [&](int matrix, int i, int j) {
    return uint32_t{reinterpret_cast<const T*>(address[matrix * 8 + i])[j].bits};
  };
  for (int m = 0; m < 4; ++m) {
    out[m] = transposed ? number(m, column, row) | number(m, column + 1, row) << 16
                        : number(m, row, column) | number(m, row, column + 1) << 16;
  }
}

/// Two floats rounded to a 16-bit type, side by side.
template <class T>
__device__ uint32_t packed_by_hand(float low, float high) {
  if constexpr (dtype_of<T> == DType::f16) {
    return uint32_t{to_half(low).bits} | uint32_t{to_half(high).bits} << 16;
  } else {
    return uint32_t{to_bf16(low).bits} | uint32_t{to_bf16(high).bits} << 16;
  }
}

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
#define MIXTAPE_MMA(type)                                                               \
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." type "." type                   \
               ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};\n" \
               : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])                         \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b_low), "r"(b_high))
#define MIXTAPE_LOAD_MATRICES(how)                                                         \
  asm volatile("ldmatrix.sync.aligned.m8n8.x4" how ".shared.b16 {%0, %1, %2, %3}, [%4];\n" \
               : "=r"(out[0]), "=r"(out[1]), "=r"(out[2]), "=r"(out[3])                    \
               : "r"(address)                                                              \
               : "memory")
template <class T>
__device__ void mma_m16n8k16(const uint32_t (&a)[4], uint32_t b_low, uint32_t b_high, float (&d)[4]) {
  if constexpr (dtype_of<T> == DType::f16) {
    MIXTAPE_MMA("f16");
  } else {
    MIXTAPE_MMA("bf16");
  }
}
template <class T, bool transposed>
__device__ void load_matrices(const T* row_of_lane, uint32_t (&out)[4]) {
  const uint32_t address = static_cast<uint32_t>(__cvta_generic_to_shared(row_of_lane));
  if constexpr (transposed) {
    MIXTAPE_LOAD_MATRICES(".trans");
  } else {
    MIXTAPE_LOAD_MATRICES("");
  }
}
template <class T>
__device__ uint32_t packed(float low, float high) {
  uint32_t pair;
  if constexpr (dtype_of<T> == DType::f16) {
    asm("cvt.rn.f16x2.f32 %0, %1, %2;\n" : "=r"(pair) : "f"(high), "f"(low));
  } else {
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;\n" : "=r"(pair) : "f"(high), "f"(low));
  }
  return pair;
}
#undef MIXTAPE_MMA
#undef MIXTAPE_LOAD_MATRICES
#else
/// All 32 lanes of a warp call these two together. T: half or bf16.
template <class T>
__device__ void mma_m16n8k16(const uint32_t (&a)[4], uint32_t b_low, uint32_t b_high, float (&d)[4]) {
  mma_by_exchange<T>(a, b_low, b_high, d);
}
template <class T, bool transposed>
__device__ void load_matrices(const T* row_of_lane, uint32_t (&out)[4]) {
  load_matrices_by_exchange<T, transposed>(row_of_lane, out);
}
template <class T>
__device__ uint32_t packed(float low, float high) {
  return packed_by_hand<T>(low, high);
}
#endif

}  // namespace mixtape::kernels::device
