// A block of threads as one worker: reductions by shuffles, in an order that depends on the size of the block alone.
#pragma once

#include "core/kernels/launch.cuh"
#include "core/maths.h"

namespace mixtape::kernels::device {

inline __device__ int lane_of_thread() { return static_cast<int>(threadIdx.x % warp_threads); }

/// The value of all 32 lanes combined, in every lane. Butterflies: a sum has the same bits in each.
template <class T, class Combine>
__device__ T reduce_warp(T value, const Combine& combine) {
  for (int bits = 16; bits > 0; bits /= 2) value = combine(value, __shfl_xor_sync(whole_warp, value, bits));
  return value;
}

/// Two places for each warp's part: with turns, one barrier a reduction is enough.
struct WarpParts {
  float part[2][warp_threads];
};
inline __device__ WarpParts& warp_parts() {
  __shared__ WarpParts parts;
  return parts;
}

/// The device's Lanes (core/kernels/loops.h): the threads of one block, a multiple of 32, walk a row together. Every
/// member must be called by all of them. Thread t works at t, t + blockDim.x, …: what it wrote there it may read again;
/// what others wrote after each() and in_order(). A kernel makes one of it: its turns keep reductions apart.
struct BlockLanes {
  mutable unsigned turn = 0;

  template <class Combine>
  __device__ float reduce(float mine, const Combine& combine) const {
    mine = reduce_warp(mine, combine);
    const unsigned warps = blockDim.x / warp_threads;
    if (warps == 1) return mine;
    float* part = warp_parts().part[turn++ % 2];  // the turn before the last: everybody has passed a barrier since
    if (lane_of_thread() == 0) part[threadIdx.x / warp_threads] = mine;
    __syncthreads();
    float all = part[0];
    for (unsigned warp = 1; warp < warps; ++warp) all = combine(all, part[warp]);
    return all;
  }
  template <class F>
  __device__ float sum(int64_t n, const F& f) const {
    float mine = 0;
    for (int64_t i = threadIdx.x; i < n; i += blockDim.x) mine += f(i);
    return reduce(mine, [](float a, float b) { return a + b; });
  }
  /// The largest f(i); NaN wins; -inf for an empty row.
  template <class F>
  __device__ float max(int64_t n, const F& f) const {
    float mine = -static_cast<float>(INFINITY);
    for (int64_t i = threadIdx.x; i < n; i += blockDim.x) mine = maths::max(mine, f(i));
    return reduce(mine, [](float a, float b) { return maths::max(a, b); });
  }
  template <class F>
  __device__ void each(int64_t n, const F& f) const {
    for (int64_t i = threadIdx.x; i < n; i += blockDim.x) f(i);
    __syncthreads();
  }
  template <class F>
  __device__ void in_order(int64_t n, const F& f) const {
    if (threadIdx.x == 0) {
      for (int64_t i = 0; i < n; ++i) f(i);
    }
    __syncthreads();
  }
};

}  // namespace mixtape::kernels::device
