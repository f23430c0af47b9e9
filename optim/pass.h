// The one pass of an optimizer over a parameter: gradient, states, parameter and 16-bit shadow, block by block.
#pragma once

#include <algorithm>

#include "core/kernels/blocks.h"
#include "core/kernels/loops.h"
#include "core/kernels/parallel.h"
#include "core/parameter.h"

namespace mixtape::optim {

/// What a formula sees of one block: arrays of M (float; double for f64 parameters) of `n` elements.
template <class M>
struct Block {
  int64_t n;
  M* parameter;  ///< read and written
  const M* raw;  ///< the gradient before its multiplier
  M* state[2];   ///< null beyond the states there are
};

namespace detail {
template <class M, class Formula>
void update_blocks(const Tensor& parameter, const Tensor& raw, const std::vector<Tensor>& states, const Formula& f) {
  const View target = parameter.view();
  const Storage shadow_bytes = writable_shadow(parameter);
  View shadow = target;
  if (shadow_bytes) {
    shadow.data = shadow_bytes.data();
    shadow.dtype = parameter.leaf().shadow.dtype;
  }
  const M* gradient = raw.data<M>();
  M* first = states.size() > 0 ? states[0].data<M>() : nullptr;
  M* second = states.size() > 1 ? states[1].data<M>() : nullptr;
  const int64_t total = target.numel(), blocks = (total + kernels::block_size - 1) / kernels::block_size;
  kernels::parallel_for(blocks, total, [&](int64_t begin, int64_t end) {
    M buffer[kernels::block_size];
    for (int64_t b = begin; b < end; ++b) {
      const int64_t start = b * kernels::block_size, n = std::min(kernels::block_size, total - start);
      M* p = kernels::target_any<M>(target, start, 1, buffer);
      if (p == buffer) kernels::load_any<M>(target, start, 1, n, buffer);
      f(Block<M>{n, p, gradient + start, {first ? first + start : nullptr, second ? second + start : nullptr}});
      kernels::store_any<M>(p, target, start, 1, n);  // one rounding; nothing to do in f32
      if (shadow_bytes) kernels::store_any<M>(p, shadow, start, 1, n);
    }
  });
}
}  // namespace detail

/// Calls formula(Block<M>) for all blocks of `parameter`, and moves the versions of what was written.
template <class Formula>
void update_pass(const Tensor& parameter, const Tensor& raw, const std::vector<Tensor>& states, const Formula& f) {
  if (parameter.dtype() == DType::f64)
    detail::update_blocks<double>(parameter, raw, states, f);
  else
    detail::update_blocks<float>(parameter, raw, states, f);
  for (const Tensor& state : states) state.storage().bump_version();
  parameter.storage().bump_version();
  mark_shadow_fresh(parameter);
}

}  // namespace mixtape::optim
