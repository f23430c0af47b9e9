// The one wrapper of the tensor cores: d = a·b + d for a [16, 16], b [16, 8] of a 16-bit type and d [16, 8] in f32,
// held by the 32 lanes of a warp in the fragments of PTX ISA, "Matrix fragments for mma.m16n8k16 with floating point
// type". The portable twin makes the same product by shuffles; it is what runs where there is no tensor core.
#pragma once

#include "core/dtype.h"
#include "core/kernels/launch.cuh"

namespace mixtape::kernels::device {

/// Lane l, with row r = l/4 and column pair c = 2·(l%4). Every register holds two neighbours along k, the lower first.
struct MmaFragments {
  uint32_t a[4];  ///< rows r, r + 8, r, r + 8 at k = c, c, c + 8, c + 8
  uint32_t b[2];  ///< column r at k = c, c + 8
  float d[4];     ///< (r, c), (r, c + 1), (r + 8, c), (r + 8, c + 1)
};

/// The product by exchange: each lane asks the owners for the numbers of its four results.
template <class T>
__device__ void mma_by_shuffles(MmaFragments& f) {
  static_assert(sizeof(T) == 2, "half or bf16");
  const auto number = [](uint32_t pair, int which) {
    return to_float(T{static_cast<uint16_t>(which == 0 ? pair & 0xffffu : pair >> 16)});
  };
  const int lane = static_cast<int>(threadIdx.x % warp_threads), row = lane / 4, column = lane % 4 * 2;
  for (int k = 0; k < 16; k += 2) {
    const int owner = k % 8 / 2, upper = k / 8;  // among the four lanes of a row
    const uint32_t above = __shfl_sync(whole_warp, upper ? f.a[2] : f.a[0], row * 4 + owner);
    const uint32_t below = __shfl_sync(whole_warp, upper ? f.a[3] : f.a[1], row * 4 + owner);
    const uint32_t left = __shfl_sync(whole_warp, f.b[upper], column * 4 + owner);
    const uint32_t right = __shfl_sync(whole_warp, f.b[upper], (column + 1) * 4 + owner);
    for (int which = 0; which < 2; ++which) {
      f.d[0] += number(above, which) * number(left, which);
      f.d[1] += number(above, which) * number(right, which);
      f.d[2] += number(below, which) * number(left, which);
      f.d[3] += number(below, which) * number(right, which);
    }
  }
}

#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
#define MIXTAPE_MMA(type)                                                               \
  asm volatile("mma.sync.aligned.m16n8k16.row.col.f32." type "." type                   \
               ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};\n" \
               : "+f"(f.d[0]), "+f"(f.d[1]), "+f"(f.d[2]), "+f"(f.d[3])                 \
               : "r"(f.a[0]), "r"(f.a[1]), "r"(f.a[2]), "r"(f.a[3]), "r"(f.b[0]), "r"(f.b[1]))
template <class T>
__device__ void mma_m16n8k16(MmaFragments& f) {
  if constexpr (dtype_of<T> == DType::f16) {
    MIXTAPE_MMA("f16");
  } else {
    MIXTAPE_MMA("bf16");
  }
}
#undef MIXTAPE_MMA
#else
/// All 32 lanes of a warp call it together. T: half or bf16.
template <class T>
__device__ void mma_m16n8k16(MmaFragments& f) {
  mma_by_shuffles<T>(f);
}
#endif

}  // namespace mixtape::kernels::device
