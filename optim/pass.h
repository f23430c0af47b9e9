// The one pass of an optimizer over a parameter: gradient, states, parameter and 16-bit shadow, block by block. On a
// device one pass over all parameters (optim/step.cuh).
#pragma once

#include <algorithm>
#include <bit>
#include <span>
#include <type_traits>
#include <vector>

#include "core/kernels/blocks.h"
#include "core/kernels/loops.h"
#include "core/kernels/parallel.h"
#include "core/parameter.h"
#include "optim/block.h"
#include "optim/optimizer.h"
#include "optim/rounding.h"
#include "optim/rule.h"
#if defined(MIXTAPE_DEVICE_MODULE)
#include "optim/step.cuh"
#endif

namespace mixtape::optim {

/// A formula with a second one, for blocks whose gradient and states are zero: it gives the same bits, of the parameter
/// alone.
template <class Formula>
concept Rests = requires(const Formula& f, float* p) {
  f.rest(int64_t{}, p);
};

namespace detail {
/// A raw gradient, block by block.
template <class M>
class GradientBlocks {
 public:
  GradientBlocks(const Gradient& gradient, const Shape& whole)
      : values_(gradient.raw.data<M>()), width_(gradient.rows ? whole.numel() / whole[0] : 0) {
    if (gradient.rows) rows_ = {gradient.rows.data<int64_t>(), static_cast<size_t>(gradient.rows.numel())};
  }
  /// `n` elements from `start`; null where all are 0 because their rows are not there.
  const M* at(int64_t start, int64_t n, M* buffer) const {
    if (width_ == 0) return values_ + start;
    const auto first = std::lower_bound(rows_.begin(), rows_.end(), start / width_);
    if (first == rows_.end() || *first * width_ >= start + n) return nullptr;
    std::fill_n(buffer, n, M(0));
    for (auto row = first; row != rows_.end() && *row * width_ < start + n; ++row) {
      const int64_t begin = std::max(start, *row * width_), end = std::min(start + n, (*row + 1) * width_);
      std::copy_n(values_ + (row - rows_.begin()) * width_ + begin - *row * width_, end - begin,
                  buffer + begin - start);
    }
    return buffer;
  }

 private:
  const M* values_;
  int64_t width_;  // 0: all rows are there
  std::span<const int64_t> rows_;
};

template <class M>
const M* zeros_in(M* room, int64_t n) {
  std::fill_n(room, n, M(0));
  return room;
}

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
  if (moments == Moments::zero && (!block.raw || all_zero(block.raw, block.n))) return true;
  moments = Moments::moving;
  return false;
}

/// `block.raw` may be null, for zeros; `room` is for them.
template <class M, class Formula>
void apply_formula(const Formula& f, Block<M>& block, std::vector<Moments>& moments, int64_t b, M* room) {
  if constexpr (Rests<Formula>) {
    if (rests(block, moments[static_cast<size_t>(b)])) return f.rest(block.n, block.parameter);
  }
  if (!block.raw) block.raw = zeros_in(room, block.n);
  f(block);
}

// Parameters of 16 bits compute in float; those of f32 and f64 store what they computed.
template <class M>
void recall(const Storing& storing, int64_t start, int64_t n, M* values) {
  if constexpr (std::is_same_v<M, float>) storing.recall(start, n, values);
}
template <class M>
void store(const Storing& storing, const M* values, const M* raw, const View& target, int64_t start, int64_t n) {
  if constexpr (std::is_same_v<M, float>) {
    if (storing.special()) return storing.store(values, raw, target, start, n);
  }
  kernels::store_any<M>(values, target, start, 1, n);  // one rounding; nothing to do in f32
}

template <class M, class Formula>
void update_blocks(const Tensor& parameter, const Gradient& gradient, const std::vector<Tensor>& states,
                   std::vector<Moments>& moments, const Formula& f, const Storing& storing) {
  const View target = parameter.view();
  const Storage shadow_bytes = writable_shadow(parameter);
  View shadow = target;
  if (shadow_bytes) {
    shadow.data = shadow_bytes.data();
    shadow.dtype = parameter.leaf().shadow.dtype;
  }
  const GradientBlocks<M> raw(gradient, parameter.shape());
  M* first = states.size() > 0 ? states[0].data<M>() : nullptr;
  M* second = states.size() > 1 ? states[1].data<M>() : nullptr;
  const int64_t total = target.numel(), blocks = (total + kernels::block_size - 1) / kernels::block_size;
  if (Rests<Formula>) moments.resize(static_cast<size_t>(blocks));
  kernels::parallel_for(blocks, total, [&](int64_t begin, int64_t end) {
    M buffer[kernels::block_size], room[kernels::block_size];
    for (int64_t b = begin; b < end; ++b) {
      const int64_t start = b * kernels::block_size, n = std::min(kernels::block_size, total - start);
      M* p = kernels::target_any<M>(target, start, 1, buffer);
      if (p == buffer) kernels::load_any<M>(target, start, 1, n, buffer);
      recall(storing, start, n, p);
      Block<M> block{
          n, p, raw.at(start, n, room), {first ? first + start : nullptr, second ? second + start : nullptr}};
      apply_formula(f, block, moments, b, room);
      if (!block.raw && storing.special()) block.raw = zeros_in(room, n);
      store(storing, p, block.raw, target, start, n);
      if (shadow_bytes) kernels::stream_any<M>(p, shadow, start, n);
    }
    if (shadow_bytes) kernels::fence_streams();
  });
}
}  // namespace detail

/// Calls formula(Block<M>) for all blocks of `parameter`, and moves the versions of what was written. `moments`, empty
/// at first and again whenever the states come from elsewhere, is this function's memory of a parameter: rows of a
/// table that no text has named yet only decay.
template <class Formula>
void update_pass(const Tensor& parameter, const Gradient& gradient, const std::vector<Tensor>& states,
                 std::vector<Moments>& moments, const Formula& f, const Storing& storing = {}) {
  if (parameter.dtype() == DType::f64)
    detail::update_blocks<double>(parameter, gradient, states, moments, f, storing);
  else
    detail::update_blocks<float>(parameter, gradient, states, moments, f, storing);
  if (storing.compensation) storing.compensation.storage().bump_version();
  for (const Tensor& state : states) state.storage().bump_version();
  parameter.storage().bump_version();
  mark_shadow_fresh(parameter);
}

/// What a device's pass is told beside the table; `rule` points to a Rule.
struct DevicePass {
  StepTable table;
  Rounding rounding;
  uint64_t seed;
  const double* lr;
  const StepRecord* record;  ///< the update happens only where it says so; null: in any case
  UpdateCounts* counts;      ///< of 16-bit parameters; null: nobody asks
};
using UpdateFunction = void(const void* rule, const DevicePass& pass);

#if defined(MIXTAPE_DEVICE_MODULE)
template <class Rule>
struct RegisterRule {
  RegisterRule() { mixtape::detail::ProvideFunction(Rule::name, &update); }
  static void update(const void* rule, const DevicePass& p) {
    device::update(p.table, *static_cast<const Rule*>(rule), {p.rounding, p.seed}, p.lr, p.record, p.counts, nullptr);
  }
};
#else
template <class Rule>
struct RegisterRule {
  RegisterRule() {}
};
#endif

/// The pass that an optimizer's `update` runs: over one parameter of the CPU, or over all of a device.
class Optimizer::Pass {
 public:
  Pass(Optimizer& optimizer, Slot& slot) : optimizer_(optimizer), slot_(&slot) {}
  Pass(Optimizer& optimizer, const DevicePass& device) : optimizer_(optimizer), device_(&device) {}

  template <class Rule>
  void run(const Rule& rule) const {
    if (device_) return on_device(Rule::name, &rule);
    if constexpr (!mixtape::detail::is_device_code) {
      const Gradient& gradient = slot_->parameter.leaf().gradient;
      const UpdateFacts facts{gradient.multiplier, optimizer_.lr_ * slot_->lr_multiplier, slot_->weight_decay,
                              slot_->steps};
      update_pass(slot_->parameter, gradient, slot_->states, slot_->moments, rule.formula(facts),
                  optimizer_.storing(*slot_));
    }
  }

 private:
  void on_device(const char* rule_name, const void* rule) const;

  Optimizer& optimizer_;
  Slot* slot_ = nullptr;
  const DevicePass* device_ = nullptr;
};

}  // namespace mixtape::optim
