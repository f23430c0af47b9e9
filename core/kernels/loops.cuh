// map, fold and rows on a GPU: the same formulas, in f32, one element or one row after the other by a block of threads.
// Included by loops.h under nvcc. The same contract as on the CPU; the speed work on these comes with the CUDA backend.
#pragma once

#include "core/kernels/launch.cuh"
#include "core/kernels/plan.h"

namespace mixtape::kernels::device {

/// An operand without its shape, which the plan knows.
struct Place {
  void* data;
  DType dtype;
  bool writes, random, statistic;
  int64_t inner_stride;  ///< along a row (rows only)
  RngCoordinates draw;
};
template <int count>
struct Places {
  Place at[count];
};

inline __device__ float load(const Place& p, int64_t offset, int64_t element) {
  if (p.random) return static_cast<float>(random16(p.draw, static_cast<uint64_t>(element)));
  switch (p.dtype) {
    case DType::f32: return static_cast<const float*>(p.data)[offset];
    case DType::f16: return to_float(static_cast<const half*>(p.data)[offset]);
    case DType::bf16: return to_float(static_cast<const bf16*>(p.data)[offset]);
    case DType::f64: return static_cast<float>(static_cast<const double*>(p.data)[offset]);
    case DType::i64: return static_cast<float>(static_cast<const int64_t*>(p.data)[offset]);
    case DType::i32: return static_cast<float>(static_cast<const int32_t*>(p.data)[offset]);
    default: return static_cast<float>(static_cast<const uint8_t*>(p.data)[offset]);  // u8, bool
  }
}

inline __device__ void store(const Place& p, int64_t offset, float value) {
  switch (p.dtype) {
    case DType::f16: static_cast<half*>(p.data)[offset] = to_half(value); return;
    case DType::bf16: static_cast<bf16*>(p.data)[offset] = to_bf16(value); return;
    default: static_cast<float*>(p.data)[offset] = value;  // loops write float tensors only
  }
}

inline __device__ int64_t offset_of(const Plan& plan, int which, int64_t index) {
  int64_t at = 0;
  for (int i = plan.rank - 1; i >= 0; --i) {
    at += index % plan.size[i] * plan.stride[which][i];
    index /= plan.size[i];
  }
  return at;
}

template <int count>
Places<count> places_of(const Operand* operands) {
  Places<count> places;
  for (int k = 0; k < count; ++k) {
    const View& v = operands[k].view;
    if (v && v.dtype == DType::f64) fail(ErrorKind::internal, "E-DEVICE", "f64 is for gradient checks on the CPU");
    if (operands[k].sums) fail(ErrorKind::internal, "E-DEVICE", "sums over rows are not there on a GPU yet");
    if (operands[k].picks) fail(ErrorKind::internal, "E-DEVICE", "rows of a table are not there on a GPU yet");
    const bool statistic = v && !operands[k].random && (v.shape.rank() == 0 || v.shape.back() == 1);
    const int64_t inner = v && !statistic ? v.strides.back() : 1;
    places.at[k] = {v.data, v.dtype, operands[k].writes, operands[k].random, statistic, inner, operands[k].draw};
  }
  return places;
}
template <int count>
void views_of(const Operand* operands, View (&views)[count]) {
  for (int k = 0; k < count; ++k) views[k] = operands[k].view;
}

inline constexpr unsigned block_threads = 256;
inline unsigned grid_for(int64_t items) {
  constexpr int64_t most = 1 << 16;
  return static_cast<unsigned>(items < most ? items : most);
}

// ---- map ----

template <class F, int inputs, size_t... K>
__device__ float apply(const F& f, const Places<inputs + 1>& places, const Plan& plan, int64_t i,
                       std::index_sequence<K...>) {
  return f(load(places.at[K + 1], offset_of(plan, K + 1, i), i)...);
}

template <class F, int inputs>
__global__ void map_kernel(F f, Places<inputs + 1> places, Plan plan, int64_t count) {
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += int64_t{gridDim.x} * blockDim.x) {
    store(places.at[0], offset_of(plan, 0, i),
          apply<F, inputs>(f, places, plan, i, std::make_index_sequence<inputs>()));
  }
}

template <class F, int inputs>
void map(const F& f, const Operand* operands) {
  View views[inputs + 1];
  views_of<inputs + 1>(operands, views);
  const Plan plan = make_plan(views[0].shape, views, inputs + 1);
  const int64_t count = views[0].numel();
  if (count == 0) return;
  launch(map_kernel<F, inputs>, grid_for((count + block_threads - 1) / block_threads), block_threads, 0, f,
         places_of<inputs + 1>(operands), plan, count);
}

// ---- reductions within a block, in a fixed order ----

/// The device's Lanes: the threads of one block walk a row together. Every member must be called by all of them.
struct BlockLanes {
  float* scratch;  // one float a thread, in shared memory

  template <class Combine>
  __device__ float reduce(float mine, const Combine& combine) const {
    scratch[threadIdx.x] = mine;
    __syncthreads();
    for (unsigned width = blockDim.x / 2; width > 0; width /= 2) {
      if (threadIdx.x < width) scratch[threadIdx.x] = combine(scratch[threadIdx.x], scratch[threadIdx.x + width]);
      __syncthreads();
    }
    const float all = scratch[0];
    __syncthreads();
    return all;
  }
  template <class F>
  __device__ float sum(int64_t n, const F& f) const {
    float mine = 0;
    for (int64_t i = threadIdx.x; i < n; i += blockDim.x) mine += f(i);
    return reduce(mine, [](float a, float b) { return a + b; });
  }
  template <class F>
  __device__ float max(int64_t n, const F& f) const {
    float mine = -INFINITY;
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

extern __shared__ float shared_floats[];

// ---- fold: one block an output element ----

template <class F, int inputs, size_t... K>
__device__ float term(const F& f, const Places<inputs + 1>& places, const Plan& kept, const Plan& reduced, int64_t item,
                      int64_t i, std::index_sequence<K...>) {
  return f(load(places.at[K + 1], offset_of(kept, K + 1, item) + offset_of(reduced, K + 1, i), i)...);
}

template <class F, int inputs>
__global__ void fold_kernel(F f, Places<inputs + 1> places, Plan kept, Plan reduced, int64_t items, int64_t terms) {
  const BlockLanes lanes{shared_floats};
  for (int64_t item = blockIdx.x; item < items; item += gridDim.x) {
    const float total = lanes.sum(terms, [&](int64_t i) {
      return term<F, inputs>(f, places, kept, reduced, item, i, std::make_index_sequence<inputs>());
    });
    if (threadIdx.x == 0) store(places.at[0], offset_of(kept, 0, item), total);
  }
}

template <class F, int inputs>
void fold(const F& f, const Shape& full_shape, const Operand* operands) {
  View views[inputs + 1];
  views_of<inputs + 1>(operands, views);
  const Shape& out = views[0].shape;
  uint32_t keep = 0;
  const int missing = full_shape.rank() - out.rank();
  for (int axis = missing; axis < full_shape.rank(); ++axis) {
    if (out[axis - missing] == full_shape[axis]) keep |= 1u << axis;
  }
  const Plan kept = make_plan(full_shape, views, inputs + 1, keep),
             reduced = make_plan(full_shape, views, inputs + 1, ~keep);
  if (out.numel() == 0) return;
  launch(fold_kernel<F, inputs>, grid_for(kept.count()), block_threads, block_threads * sizeof(float), f,
         places_of<inputs + 1>(operands), kept, reduced, kept.count(), reduced.count());
}

// ---- rows: one block a row, the row in shared memory ----

template <class F, int operands, size_t... K>
__device__ void call_row(const F& f, const BlockLanes& lanes, int64_t n, int64_t row, float* const* pointer,
                         std::index_sequence<K...>) {
  f(lanes, n, row, pointer[K]...);
}

template <class F, int operands>
__global__ void rows_kernel(F f, Places<operands> places, Plan outer, int64_t rows, int64_t n) {
  const BlockLanes lanes{shared_floats};
  float* room = shared_floats + blockDim.x;
  for (int64_t row = blockIdx.x; row < rows; row += gridDim.x) {
    float* pointer[operands];
    float* next = room;
    for (int k = 0; k < operands; ++k) {
      const Place& p = places.at[k];
      const int64_t length = p.statistic ? 1 : n, stride = p.inner_stride, at = offset_of(outer, k, row);
      pointer[k] = p.data || p.writes || p.random ? next : nullptr;
      if (p.random) {
        const int64_t drawn = p.data ? static_cast<const int64_t*>(p.data)[at] : row;
        for (int64_t i = threadIdx.x; i < length; i += blockDim.x) next[i] = load(p, 0, drawn * n + i);
      } else if (!p.writes && p.data) {
        for (int64_t i = threadIdx.x; i < length; i += blockDim.x) next[i] = load(p, at + i * stride, 0);
      }
      next += length;
    }
    __syncthreads();
    call_row<F, operands>(f, lanes, n, row, pointer, std::make_index_sequence<operands>());
    __syncthreads();
    for (int k = 0; k < operands; ++k) {
      const Place& p = places.at[k];
      if (!p.writes || !p.data) continue;
      const int64_t length = p.statistic ? 1 : n, stride = p.inner_stride, at = offset_of(outer, k, row);
      for (int64_t i = threadIdx.x; i < length; i += blockDim.x) store(p, at + i * stride, pointer[k][i]);
    }
    __syncthreads();
  }
}

template <class F, int operands>
void rows(const F& f, const Shape& full_shape, const Operand* given) {
  View views[operands];
  views_of<operands>(given, views);
  const int rank = full_shape.rank();
  const int64_t n = rank == 0 ? 1 : full_shape.back();
  const Plan outer = make_plan(full_shape, views, operands, rank == 0 ? 0u : (1u << (rank - 1)) - 1u);
  if (outer.count() == 0) return;
  launch(rows_kernel<F, operands>, grid_for(outer.count()), block_threads,
         (block_threads + static_cast<size_t>(operands) * static_cast<size_t>(n)) * sizeof(float), f,
         places_of<operands>(given), outer, outer.count(), n);
}

}  // namespace mixtape::kernels::device
