// map on a GPU: one formula over elements that broadcast. A thread takes four neighbours at a time where every operand
// has them side by side, or one element that all four share.
#pragma once

#include "core/kernels/place.cuh"

namespace mixtape::kernels::device {

inline constexpr unsigned map_threads = 256;

/// `n` elements (of `width`) of one operand.
template <int width>
__device__ void load_lanes(const Place& p, int64_t at, int64_t first, int n, float (&out)[width]) {
  if (p.random) return draw(p.draw, first, out);
  if (width > 1 && p.inner_stride == 0) {
    const float value = load(p.data, p.dtype, at);
    for (int j = 0; j < width; ++j) out[j] = value;
    return;
  }
  if constexpr (width == lanes) {
    if (n == width) return load_four(p.data, p.dtype, at, out);
  }
  for (int j = 0; j < width; ++j) out[j] = j < n ? load(p.data, p.dtype, at + j) : 0.0f;
}

template <class F, int inputs, int width, size_t... K>
__device__ float apply(const F& f, const float (&in)[inputs][width], int lane, std::index_sequence<K...>) {
  return f(in[K][lane]...);
}

template <class F, int inputs, int width>
__global__ void map_kernel(F f, const __grid_constant__ Places<inputs + 1> places,
                           const __grid_constant__ Walk<inputs + 1> walk, int64_t count) {
  const int64_t step = int64_t{gridDim.x} * blockDim.x * width;
  for (int64_t first = (int64_t{blockIdx.x} * blockDim.x + threadIdx.x) * width; first < count; first += step) {
    const int n = count - first < width ? static_cast<int>(count - first) : width;
    int64_t at[inputs + 1] = {};
    walk.add_offsets(first, at);
    float in[inputs][width], out[width] = {};
    for (int k = 0; k < inputs; ++k) load_lanes(places.at[k + 1], at[k + 1], first, n, in[k]);
    for (int j = 0; j < n; ++j) out[j] = apply<F, inputs, width>(f, in, j, std::make_index_sequence<inputs>());
    if constexpr (width == lanes) {
      if (n == width) {
        store_four(places.at[0].data, places.at[0].dtype, at[0], out);
        continue;
      }
    }
    for (int j = 0; j < n; ++j) store(places.at[0].data, places.at[0].dtype, at[0] + j, out[j]);
  }
}

/// Whether four neighbours along the innermost axis are four neighbours, or one element, of every operand.
template <int count>
bool moves_in_fours(const Places<count>& places, const Plan& plan) {
  if (plan.rank == 0 || (plan.rank > 1 && plan.size[plan.rank - 1] % lanes != 0)) return false;
  for (int k = 0; k < count; ++k) {
    const Place& p = places.at[k];
    if (p.random) continue;
    const int64_t inner = plan.stride[k][plan.rank - 1];
    if (inner == 0 && k > 0) continue;
    if (inner != 1 || !aligned_for_four(p.data, p.dtype)) return false;
    for (int i = 0; i + 1 < plan.rank; ++i) {
      if (plan.stride[k][i] % lanes != 0) return false;
    }
  }
  return true;
}

template <class F, int inputs>
void map(const F& f, const Operand* operands, cudaStream_t stream = nullptr) {
  View views[inputs + 1];
  views_of<inputs + 1>(operands, views);
  const Plan plan = make_plan(views[0].shape, views, inputs + 1);
  const int64_t count = views[0].numel();
  if (count == 0) return;
  Places<inputs + 1> places = places_of<inputs + 1>(operands);
  for (int k = 0; k <= inputs; ++k) {
    places.at[k].inner_stride = plan.rank == 0 ? 0 : plan.stride[k][plan.rank - 1];
  }
  const Walk<inputs + 1> walk(plan);
  if (moves_in_fours(places, plan)) {
    launch(map_kernel<F, inputs, lanes>, grid_for(count, map_threads * lanes), map_threads, 0, stream, f, places, walk,
           count);
  } else {
    launch(map_kernel<F, inputs, 1>, grid_for(count, map_threads), map_threads, 0, stream, f, places, walk, count);
  }
}

}  // namespace mixtape::kernels::device
