// A step on a GPU, without a look from the host: one pass over all gradients, a verdict, one pass over all parameters.
// A step that must be skipped is skipped inside the kernels.
//
//   survey(table, parts, found, stream);                 // is each gradient finite, how large is it
//   judge(table, found, flags, verdict, stream);         // into a record: norm, result
//   update(table, rule, settings, …, stream);            // where the record says so
#pragma once

#include "core/kernels/loops.h"

#include "core/kernels/basic.cuh"
#include "optim/block.h"
#include "optim/rounding.h"
#include "optim/rule.h"
#include "optim/schedule_formula.h"
#include "optim/step_state.h"

namespace mixtape::optim::device {

using kernels::device::CensusPart;
using kernels::device::lanes;
using kernels::device::launch;

inline constexpr unsigned pass_threads = 256;

/// The row of which this block has a part.
inline __device__ const TableRow& row_of_block(const StepTable& table) {
  int low = 0, high = table.count;  // the last row that begins at or before this block
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    (table.rows[middle].first_block <= int64_t{blockIdx.x} ? low : high) = middle;
  }
  return table.rows[low];
}

/// Calls f(first, n), n up to four, for the elements that are this thread's.
template <class F>
__device__ void each_four(const TableRow& row, const F& f) {
  const int64_t start = (int64_t{blockIdx.x} - row.first_block) * block_elements;
  const int64_t end = start + block_elements < row.count ? start + block_elements : row.count;
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

inline __device__ double size_of_gradient(const TableRow& row) {
  return row.factor ? row.multiplier * *row.factor : row.multiplier;
}

/// The parts of all threads become one, in an order that does not depend on luck.
inline __device__ CensusPart joined(const CensusPart& mine) {
  __shared__ CensusPart own[pass_threads];
  own[threadIdx.x] = mine;
  for (unsigned reach = pass_threads / 2; reach > 0; reach /= 2) {
    __syncthreads();
    if (threadIdx.x < reach) own[threadIdx.x].join(own[threadIdx.x + reach]);
  }
  return own[threadIdx.x];
}

template <int = 0>
__global__ void survey_kernel(StepTable table, CensusPart* parts) {
  const TableRow& row = row_of_block(table);
  CensusPart mine{0, 0, 1};
  each_four(row, [&](int64_t at, int n) {
    float raw[lanes] = {};
    load_some(row.raw, DType::f32, at, n, raw);
    for (int j = 0; j < lanes; ++j) {
      const float magnitude = maths::abs(raw[j]);
      const bool finite = magnitude <= 3.402823466e38f;  // not NaN either
      mine.finite &= finite;
      if (finite && magnitude > mine.max_abs) mine.max_abs = magnitude;
      mine.sum_of_squares += static_cast<double>(raw[j]) * static_cast<double>(raw[j]);
    }
  });
  const CensusPart all = joined(mine);
  if (threadIdx.x == 0) parts[blockIdx.x] = all;
}

/// A block for each row.
template <int = 0>
__global__ void gather_parts_kernel(StepTable table, const CensusPart* parts, CensusPart* found) {
  const TableRow& row = table.rows[blockIdx.x];
  const int64_t count = (row.count + block_elements - 1) / block_elements;
  CensusPart mine{0, 0, 1};
  for (int64_t i = threadIdx.x; i < count; i += pass_threads) mine.join(parts[row.first_block + i]);
  const CensusPart all = joined(mine);
  if (threadIdx.x == 0) found[blockIdx.x] = all;
}

/// What a verdict writes beside its record; null pointers are left alone.
struct Verdict {
  StepRecord* record;
  RoundFlags* round;  ///< null: nobody scales losses
  const double* lr;
  UpdateCounts* counts;  ///< begin anew with an applied step
  Judging mode;
};

inline __device__ StepResult result_of(const Verdict& verdict, int gradients, bool nonfinite) {
  if (verdict.mode == Judging::force) return StepResult::applied;
  if (verdict.round && verdict.round->bad_loss) return StepResult::skipped_nonfinite_loss;
  if (gradients == 0) return StepResult::no_gradients;
  return nonfinite ? StepResult::skipped_overflow : StepResult::applied;
}

inline __device__ void write_verdict(const Verdict& verdict, int gradients, const CensusPart& all, StepResult result) {
  StepRecord record;
  record.norm = ::sqrt(all.sum_of_squares);
  record.lr = verdict.lr ? *verdict.lr : 0;
  record.scale = verdict.round ? verdict.round->scale : 1;
  record.nonfinite = !all.finite;
  record.result = result;
  *verdict.record = record;
  if (RoundFlags* round = verdict.round) {
    round->overflow |= !all.finite;
    round->gradients |= gradients > 0;
    if (verdict.mode != Judging::look) round->skipped |= result == StepResult::skipped_overflow;
  }
  if (verdict.mode != Judging::look && verdict.counts && result == StepResult::applied) *verdict.counts = {};
}

/// One block. The optimizer multiplies in f32: an overflow that only this product makes must be seen too.
template <int = 0>
__global__ void judge_kernel(StepTable table, const CensusPart* found, uint8_t* flags, Verdict verdict) {
  __shared__ StepResult result;
  CensusPart mine{0, 0, 1};
  for (int i = static_cast<int>(threadIdx.x); i < table.count; i += static_cast<int>(pass_threads)) {
    constexpr double largest = 3.4028234663852886e38;
    const double size = size_of_gradient(table.rows[i]), magnitude = size < 0 ? -size : size;
    const bool finite = found[i].finite && magnitude <= largest && found[i].max_abs * magnitude <= largest;
    flags[i] = !finite;
    mine.join({found[i].sum_of_squares * size * size, 0, finite});
  }
  const CensusPart all = joined(mine);
  if (threadIdx.x == 0) {
    result = result_of(verdict, table.count, !all.finite);
    write_verdict(verdict, table.count, all, result);
  }
  __syncthreads();
  if (verdict.mode == Judging::look || result != StepResult::applied) return;
  for (int i = static_cast<int>(threadIdx.x); i < table.count; i += static_cast<int>(pass_threads)) {
    ++*table.rows[i].steps;
  }
}

/// out = factor, made smaller where the norm of the record is above the limit.
template <int = 0>
__global__ void clip_kernel(const StepRecord* record, double max_norm, const double* factor, double* out) {
  const double norm = record->norm, before = factor ? *factor : 1;
  const bool above = max_norm > 0 && !record->nonfinite && norm - norm == 0 && norm > max_norm;
  *out = above ? before * (max_norm / norm) : before;
}

/// How 16-bit parameters are rounded.
struct RoundingPlan {
  Rounding rounding = Rounding::nearest;
  uint64_t seed = 0;
};

/// New values of a 16-bit parameter; returns how many of them left its bits as they were though they had a gradient.
inline __device__ int store_low(const TableRow& row, const RoundingPlan& plan, int64_t at, int n,
                                const float (&value)[lanes], const float (&raw)[lanes]) {
  uint16_t* bits = static_cast<uint16_t*>(row.parameter);
  const RngCoordinates draws{plan.seed, rng_stream::rounding, static_cast<uint32_t>(*row.steps), 0, row.draw};
  int lost = 0;
  for (int j = 0; j < n; ++j) {
    const uint16_t before = bits[at + j], rest_before = row.rest ? row.rest[at + j].bits : uint16_t{0};
    if (row.dtype == DType::bf16 && plan.rounding == Rounding::stochastic) {
      bits[at + j] = to_bf16_stochastic(value[j], random16(draws, static_cast<uint64_t>(at + j))).bits;
    } else {
      kernels::device::store(row.parameter, row.dtype, at + j, value[j]);
    }
    if (row.rest) {
      const float rest = value[j] - to_float(bf16{bits[at + j]});
      row.rest[at + j] = to_bf16(rest - rest == 0 ? rest : 0.0f);
    }
    const bool stays = bits[at + j] == before && (!row.rest || row.rest[at + j].bits == rest_before);
    lost += raw[j] != 0 && stays;
  }
  return lost;
}

inline __device__ void count_low(int wanted, int lost, UpdateCounts* counts) {
  if (wanted > 0) atomicAdd(&counts->wanted, static_cast<unsigned long long>(wanted));
  if (lost > 0) atomicAdd(&counts->lost, static_cast<unsigned long long>(lost));
}

/// The four elements of a thread: loaded, moved by the formula, stored, and their twins.
template <class Formula>
__device__ void update_four(const TableRow& row, const Formula& formula, const RoundingPlan& plan, int64_t at, int n,
                            int& wanted, int& lost) {
  float p[lanes] = {}, raw[lanes] = {}, first[lanes] = {}, second[lanes] = {}, rest[lanes] = {};
  load_some(row.parameter, row.dtype, at, n, p);
  load_some(row.raw, DType::f32, at, n, raw);
  if (row.state[0]) load_some(row.state[0], DType::f32, at, n, first);
  if (row.state[1]) load_some(row.state[1], DType::f32, at, n, second);
  if (row.rest) load_some(row.rest, DType::bf16, at, n, rest);
  for (int j = 0; j < lanes; ++j) p[j] += rest[j];
  formula(Block<float>{lanes, p, raw, {first, second}});
  if (row.state[0]) store_some(row.state[0], DType::f32, at, n, first);
  if (row.state[1]) store_some(row.state[1], DType::f32, at, n, second);
  if (kernels::device::has_16_bits(row.dtype)) {
    for (int j = 0; j < n; ++j) wanted += raw[j] != 0;
    lost += store_low(row, plan, at, n, p, raw);
  } else {
    store_some(row.parameter, row.dtype, at, n, p);
  }
  if (row.shadow) store_some(row.shadow, row.shadow_dtype, at, n, p);
}

template <class Rule>
__global__ void update_kernel(StepTable table, Rule rule, RoundingPlan plan, const double* lr, const StepRecord* record,
                              UpdateCounts* counts) {
  if (record && record->result != StepResult::applied) return;  // all threads of all blocks: nobody writes it now
  using Formula = decltype(rule.formula(UpdateFacts{}));
  __shared__ Formula formula;
  const TableRow& row = row_of_block(table);
  if (threadIdx.x == 0) {  // powers in f64, once a block
    formula = rule.formula({size_of_gradient(row), *lr * row.lr_multiplier, row.weight_decay, *row.steps});
  }
  __syncthreads();
  int wanted = 0, lost = 0;
  each_four(row, [&](int64_t at, int n) { update_four(row, formula, plan, at, n, wanted, lost); });
  if (counts) count_low(wanted, lost, counts);
}

/// What a pass over 16-bit parameters counted belongs to the step.
template <int = 0>
__global__ void note_counts_kernel(StepRecord* record, const UpdateCounts* counts) {
  if (record->result != StepResult::applied) return;
  record->wanted = counts->wanted;
  record->lost = counts->lost;
}

/// A plan moves on if the step was applied.
template <int = 0>
__global__ void advance_kernel(const StepRecord* record, SchedulePlan plan, int64_t* updates, double* lr) {
  if (record->result != StepResult::applied) return;
  ++*updates;
  *lr = scheduled_rate(plan, *updates);
}

inline void survey(const StepTable& table, CensusPart* parts, CensusPart* found, cudaStream_t stream) {
  if (table.blocks > 0)
    launch(survey_kernel<>, static_cast<unsigned>(table.blocks), pass_threads, 0, stream, table, parts);
  if (table.count > 0) {
    launch(gather_parts_kernel<>, static_cast<unsigned>(table.count), pass_threads, 0, stream, table, parts, found);
  }
}
inline void judge(const StepTable& table, const CensusPart* found, uint8_t* flags, const Verdict& verdict,
                  cudaStream_t stream) {
  launch(judge_kernel<>, 1, pass_threads, 0, stream, table, found, flags, verdict);
}
template <class Rule>
void update(const StepTable& table, const Rule& rule, const RoundingPlan& plan, const double* lr,
            const StepRecord* record, UpdateCounts* counts, cudaStream_t stream) {
  if (table.blocks == 0) return;
  launch(update_kernel<Rule>, static_cast<unsigned>(table.blocks), pass_threads, 0, stream, table, rule, plan, lr,
         record, counts);
}

}  // namespace mixtape::optim::device
