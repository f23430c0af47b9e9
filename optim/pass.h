// The one pass of an optimizer over a parameter: gradient, states, parameter and 16-bit shadow, block by block.
#pragma once

#include <algorithm>
#include <bit>
#include <type_traits>
#include <vector>

#include "core/kernels/blocks.h"
#include "core/kernels/loops.h"
#include "core/kernels/parallel.h"
#include "core/parameter.h"
#include "optim/optimizer.h"

namespace mixtape::optim {

/// What a formula sees of one block: arrays of M (float; double for f64 parameters) of `n` elements.
template <class M>
struct Block {
  int64_t n;
  M* parameter;  ///< read and written
  const M* raw;  ///< the gradient before its multiplier
  M* state[2];   ///< null beyond the states there are
};

/// A formula with a second one, for blocks whose gradient and states are zero: it gives the same bits, of the parameter
/// alone.
template <class Formula>
concept Rests = requires(const Formula& f, float* p) {
  f.rest(int64_t{}, p);
};

namespace detail {
template <class M>
bool all_zero(const M* values, int64_t n) {
  int64_t other = 0;
  for (int64_t i = 0; i < n; ++i) other += values[i] != M(0);
  return other == 0;
}
/// Whether every bit is 0: a formula turns -0 into +0.
template <class M>
bool all_clear(const M* values, int64_t n) {
  using Bits = std::conditional_t<sizeof(M) == 4, uint32_t, uint64_t>;
  Bits any = 0;
  for (int64_t i = 0; values && i < n; ++i) any |= std::bit_cast<Bits>(values[i]);
  return any == 0;
}

/// Whether nothing but the parameter itself moves in this block.
template <class M>
bool rests(const Block<M>& block, Moments& moments) {
  if (moments == Moments::moving) return false;
  if (moments == Moments::unknown) {
    const bool clear = all_clear(block.state[0], block.n) && all_clear(block.state[1], block.n);
    moments = clear ? Moments::zero : Moments::moving;
  }
  if (moments == Moments::zero && all_zero(block.raw, block.n)) return true;
  moments = Moments::moving;
  return false;
}

template <class M, class Formula>
void apply_formula(const Formula& f, const Block<M>& block, std::vector<Moments>& moments, int64_t b) {
  if constexpr (Rests<Formula>) {
    if (rests(block, moments[static_cast<size_t>(b)])) return f.rest(block.n, block.parameter);
  }
  f(block);
}

template <class M, class Formula>
void update_blocks(const Tensor& parameter, const Tensor& raw, const std::vector<Tensor>& states,
                   std::vector<Moments>& moments, const Formula& f) {
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
  if (Rests<Formula>) moments.resize(static_cast<size_t>(blocks));
  kernels::parallel_for(blocks, total, [&](int64_t begin, int64_t end) {
    M buffer[kernels::block_size];
    for (int64_t b = begin; b < end; ++b) {
      const int64_t start = b * kernels::block_size, n = std::min(kernels::block_size, total - start);
      M* p = kernels::target_any<M>(target, start, 1, buffer);
      if (p == buffer) kernels::load_any<M>(target, start, 1, n, buffer);
      const Block<M> block{
          n, p, gradient + start, {first ? first + start : nullptr, second ? second + start : nullptr}};
      apply_formula(f, block, moments, b);
      kernels::store_any<M>(p, target, start, 1, n);  // one rounding; nothing to do in f32
      if (shadow_bytes) kernels::stream_any<M>(p, shadow, start, n);
    }
    if (shadow_bytes) kernels::fence_streams();
  });
}
}  // namespace detail

/// Calls formula(Block<M>) for all blocks of `parameter`, and moves the versions of what was written. `moments`, empty
/// at first and again whenever the states come from elsewhere, is this function's memory of a parameter: rows of a
/// table that no text has named yet only decay, and cost the reading of their gradient.
template <class Formula>
void update_pass(const Tensor& parameter, const Tensor& raw, const std::vector<Tensor>& states,
                 std::vector<Moments>& moments, const Formula& f) {
  if (parameter.dtype() == DType::f64)
    detail::update_blocks<double>(parameter, raw, states, moments, f);
  else
    detail::update_blocks<float>(parameter, raw, states, moments, f);
  for (const Tensor& state : states) state.storage().bump_version();
  parameter.storage().bump_version();
  mark_shadow_fresh(parameter);
}

}  // namespace mixtape::optim
