// AdamW on a GPU: one pass over many tensors, and no look from the host. Whether a gradient is not finite, how often
// was updated and what the gradients are multiplied by stay in one state on the device; a step that must be skipped is
// skipped inside the kernel, and the host reads the state when it logs.
//
//   survey_gradients(tensors, state, stream);       // raises state.nonfinite
//   adamw_step(tensors, options, plan, state, stream);
//   settle_step(state, stream);                     // counts, and lowers it again
#pragma once

#include <span>

#include "core/kernels/loops.h"

#include "core/kernels/place.cuh"
#include "optim/adamw.h"
#include "optim/adamw_formula.h"
#include "optim/schedule_formula.h"

namespace mixtape::optim::device {

using kernels::device::lanes;
using kernels::device::launch;

/// Of all steps so far, in device memory; begins as it is here.
struct StepState {
  uint32_t nonfinite = 0;  ///< of the running step: a gradient is not finite, before or after its multiplier
  double multiplier = 1;   ///< of all gradients: 1/scale, and clipping
  int64_t attempted = 0, updates = 0, consecutive_skips = 0;
};

/// One parameter. Contiguous, all of `count` elements; raw gradient and states f32.
struct AdamWTensor {
  void* parameter;
  const float* raw;
  float *first, *second;
  void* shadow;  ///< its 16-bit twin, written along; or null
  int64_t count;
  int64_t updates_before;  ///< updates of the others before it had its first gradient
  double weight_decay, lr_multiplier;
  double multiplier;  ///< beside that of the state
  DType dtype, shadow_dtype;
};

inline constexpr int tensors_a_launch = 24;
inline constexpr unsigned pass_threads = 256;
inline constexpr int64_t block_elements = 4096;

struct TensorList {
  int size = 0;
  AdamWTensor at[tensors_a_launch];
  int64_t blocks_before[tensors_a_launch + 1] = {};  // of each tensor, and in all
};

/// The tensor of which this block has a part.
inline __device__ int tensor_of_block(const TensorList& list) {
  int which = 0;
  while (which + 1 < list.size && list.blocks_before[which + 1] <= int64_t{blockIdx.x}) ++which;
  return which;
}

/// Calls f(first, n), n up to four, for the elements that are this thread's.
template <class F>
__device__ void each_four(const TensorList& list, int which, const F& f) {
  const int64_t count = list.at[which].count;
  const int64_t start = (int64_t{blockIdx.x} - list.blocks_before[which]) * block_elements;
  const int64_t end = start + block_elements < count ? start + block_elements : count;
  for (int64_t i = start + int64_t{threadIdx.x} * lanes; i < end; i += int64_t{pass_threads} * lanes) {
    f(i, static_cast<int>(end - i < lanes ? end - i : lanes));
  }
}

/// `n` elements, four at once where all are there: parameters begin on a boundary.
inline __device__ void load_some(const void* data, DType dtype, int64_t at, int n, float (&out)[lanes]) {
  if (n == lanes) return kernels::device::load_four(data, dtype, at, out);
  for (int j = 0; j < n; ++j) out[j] = kernels::device::load(data, dtype, at + j);
}
inline __device__ void store_some(void* data, DType dtype, int64_t at, int n, const float (&value)[lanes]) {
  if (n == lanes) return kernels::device::store_four(data, dtype, at, value);
  for (int j = 0; j < n; ++j) kernels::device::store(data, dtype, at + j, value[j]);
}

template <int = 0>
__global__ void survey_kernel(const __grid_constant__ TensorList list, StepState* state) {
  const int which = tensor_of_block(list);
  const AdamWTensor& tensor = list.at[which];
  const float scale = static_cast<float>(state->multiplier * tensor.multiplier);
  bool finite = true;
  each_four(list, which, [&](int64_t at, int n) {
    float raw[lanes] = {};
    load_some(tensor.raw, DType::f32, at, n, raw);
    for (int j = 0; j < lanes; ++j) {
      const float product = raw[j] * scale;
      finite = finite && raw[j] - raw[j] == 0.0f && product - product == 0.0f;
    }
  });
  const bool any = __any_sync(kernels::device::whole_warp, !finite);
  if (any && threadIdx.x % warpSize == 0) atomicOr(&state->nonfinite, 1u);
}

template <int = 0>
__global__ void adamw_kernel(const __grid_constant__ TensorList list, AdamWOptions options, SchedulePlan plan,
                             const StepState* state) {
  if (state->nonfinite) return;  // all threads of all blocks: nobody writes it now
  __shared__ AdamWFormula formula;
  const int which = tensor_of_block(list);
  const AdamWTensor& tensor = list.at[which];
  if (threadIdx.x == 0) {  // two powers in f64, once a block
    formula = adamw_formula(state->multiplier * tensor.multiplier, options.beta1, options.beta2, options.eps,
                            scheduled_rate(plan, state->updates) * tensor.lr_multiplier, tensor.weight_decay,
                            state->updates + 1 - tensor.updates_before);
  }
  __syncthreads();
  each_four(list, which, [&](int64_t at, int n) {
    float p[lanes] = {}, raw[lanes] = {}, m[lanes] = {}, v[lanes] = {};
    load_some(tensor.parameter, tensor.dtype, at, n, p);
    load_some(tensor.raw, DType::f32, at, n, raw);
    load_some(tensor.first, DType::f32, at, n, m);
    load_some(tensor.second, DType::f32, at, n, v);
    formula(Block<float>{lanes, p, raw, {m, v}});
    store_some(tensor.first, DType::f32, at, n, m);
    store_some(tensor.second, DType::f32, at, n, v);
    store_some(tensor.parameter, tensor.dtype, at, n, p);
    if (tensor.shadow) store_some(tensor.shadow, tensor.shadow_dtype, at, n, p);
  });
}

template <int = 0>
__global__ void settle_kernel(StepState* state) {
  ++state->attempted;
  if (state->nonfinite) {
    ++state->consecutive_skips;
  } else {
    ++state->updates;
    state->consecutive_skips = 0;
  }
  state->nonfinite = 0;
}

/// Calls f(list, blocks) for as many lists as hold all tensors.
template <class F>
void for_lists(std::span<const AdamWTensor> tensors, const F& f) {
  TensorList list;
  const auto flush = [&] {
    if (list.size > 0) f(list, static_cast<unsigned>(list.blocks_before[list.size]));
    list.size = 0;
  };
  for (const AdamWTensor& tensor : tensors) {
    if (tensor.count == 0) continue;
    if (list.size == tensors_a_launch) flush();
    list.at[list.size] = tensor;
    const int64_t blocks = (tensor.count + block_elements - 1) / block_elements;
    list.blocks_before[list.size + 1] = list.blocks_before[list.size] + blocks;
    ++list.size;
  }
  flush();
}

inline void survey_gradients(std::span<const AdamWTensor> tensors, StepState* state, cudaStream_t stream) {
  for_lists(tensors, [&](const TensorList& list, unsigned blocks) {
    launch(survey_kernel<>, blocks, pass_threads, 0, stream, list, state);
  });
}
inline void adamw_step(std::span<const AdamWTensor> tensors, const AdamWOptions& options, const SchedulePlan& plan,
                       const StepState* state, cudaStream_t stream) {
  for_lists(tensors, [&](const TensorList& list, unsigned blocks) {
    launch(adamw_kernel<>, blocks, pass_threads, 0, stream, list, options, plan, state);
  });
}
inline void settle_step(StepState* state, cudaStream_t stream) { launch(settle_kernel<>, 1, 1, 0, stream, state); }

}  // namespace mixtape::optim::device
