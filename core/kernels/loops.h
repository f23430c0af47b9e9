// The three loops that cover every op but matrix products and gathers: map, fold, rows.
//
// All of them read blocks of elements into math type M (float; double as soon as one operand is f64), call the op's
// formula on plain arrays of M, and store the results rounded once. Formulas never see a 16-bit type, a stride or a
// thread. The walk over memory is compiled once, in loops.cpp; an op instantiates only its formula, for float and
// double.
#pragma once

#include <type_traits>
#include <utility>

#include "core/maths.h"
#include "core/rng.h"
#include "core/view.h"

#if defined(__clang__)
#define MIXTAPE_INDEPENDENT _Pragma("clang loop vectorize(assume_safety)")
#elif defined(__GNUC__) && !defined(__CUDACC__)
#define MIXTAPE_INDEPENDENT _Pragma("GCC ivdep")
#else
#define MIXTAPE_INDEPENDENT
#endif

// The sixteen lanes of a reduction stay a loop until the vectoriser has seen them: unrolled first, as g++ 12 does, a
// maximum is scalar code.
#if defined(__GNUC__) && !defined(__clang__) && !defined(__CUDACC__)
#define MIXTAPE_LANES _Pragma("GCC unroll 1")
#else
#define MIXTAPE_LANES
#endif

namespace mixtape::kernels {

/// An operand of a loop: a view that is read, written or summed, rows of a table, or random coordinates that stand for
/// 16 bits an element.
struct Operand {
  View view;
  View table = {};
  bool writes = false;
  bool sums = false;
  bool picks = false;
  bool random = false;
  RngCoordinates draw = {};
  Operand(const View& v) : view(v) {}
  Operand(const RngCoordinates& at) : random(true), draw(at) {}
  /// Whether `rows` hands the formula one element of a row instead of n. What is written and absent still says so by
  /// its shape: on a device each thread then has one of its own, not all of them the first of a scratch row.
  bool is_statistic() const {
    if (random || picks || sums) return false;
    if (!view) return writes && view.shape.rank() > 0 && view.shape.back() == 1;
    return view.shape.rank() == 0 || view.shape.back() == 1;
  }
};
/// A written operand of `rows`; all others are read.
inline Operand write(const View& view) {
  Operand operand(view);
  operand.writes = true;
  return operand;
}
/// An operand [n] of `rows` to which each row adds: the formula gets an array that other rows added to before it. The
/// sum's order is fixed: by pieces of `rows`, whoever walks them.
inline Operand sum_rows_into(const View& view) {
  Operand operand(view);
  operand.sums = true;
  return operand;
}
/// A read operand of `rows`: row r reads row index[r] of a table [v, n]. `index` is i64 [rows.., 1], broadcasts to the
/// rows, and must be in range; on a device one that is not picks NaN.
inline Operand picked_rows(const View& table, const View& index) {
  Operand operand(index);
  operand.table = table;
  operand.picks = true;
  return operand;
}
/// Random operands of `rows`: row r draws the elements of row places[r] (i64 [rows.., 1]) of a tensor with rows of the
/// same length; absent places: of row r.
inline Operand random_rows(const RngCoordinates& at, const View& places = {}) {
  Operand operand(at);
  operand.view = places;
  return operand;
}

// ---- reductions in a fixed order, and what a row formula works with ----

namespace detail {
/// The tree over sixteen lanes, written out: with a width that varies it costs more than a short row.
template <class M, class F>
MIXTAPE_HD M combined(M (&lane)[16], const F& f) {
  for (int j = 0; j < 8; ++j) lane[j] = f(lane[j], lane[j + 8]);
  for (int j = 0; j < 4; ++j) lane[j] = f(lane[j], lane[j + 4]);
  for (int j = 0; j < 2; ++j) lane[j] = f(lane[j], lane[j + 2]);
  return f(lane[0], lane[1]);
}
}  // namespace detail

/// Sixteen lanes, then a tree: vector hardware, scalar code, one thread or many give the same bits.
template <class M, class F>
MIXTAPE_HD inline M lane_sum(int64_t n, const F& f) {
  constexpr int lanes = 16;
  M sum[lanes] = {};
  int64_t i = 0;
  for (; i + lanes <= n; i += lanes) {
    MIXTAPE_LANES
    for (int j = 0; j < lanes; ++j) sum[j] += f(i + j);
  }
  for (int j = 0; i < n; ++i, ++j) sum[j] += f(i);
  return detail::combined(sum, [](M a, M b) { return a + b; });
}

/// Loops and reductions over one row. On a GPU the same names are a block of threads, the arrays in shared memory.
template <class M>
struct Lanes {
  template <class F>
  MIXTAPE_HD M sum(int64_t n, const F& f) const {
    return lane_sum<M>(n, f);
  }
  /// The largest f(i); NaN wins; -inf for an empty row.
  template <class F>
  MIXTAPE_HD M max(int64_t n, const F& f) const {
    constexpr int lanes = 16;
    M lane[lanes];
    for (M& value : lane) value = -static_cast<M>(INFINITY);
    int64_t i = 0;
    for (; i + lanes <= n; i += lanes) {
      MIXTAPE_LANES
      for (int j = 0; j < lanes; ++j) lane[j] = maths::max(lane[j], f(i + j));
    }
    for (int j = 0; i < n; ++i, ++j) lane[j] = maths::max(lane[j], f(i));
    return detail::combined(lane, [](M a, M b) { return maths::max(a, b); });
  }
  template <class F>
  MIXTAPE_HD void each(int64_t n, const F& f) const {
    MIXTAPE_INDEPENDENT
    for (int64_t i = 0; i < n; ++i) f(i);
  }
  /// A loop whose step i needs step i-1 (cumsum).
  template <class F>
  MIXTAPE_HD void in_order(int64_t n, const F& f) const {
    for (int64_t i = 0; i < n; ++i) f(i);
  }
};

// ---- the erased formulas, and the walks in loops.cpp ----

namespace detail {

template <class M>
using BlockFunction = void (*)(const void* f, int64_t n, M* out, const M* const* in);
struct BlockFormula {
  const void* f;
  BlockFunction<float> f32;
  BlockFunction<double> f64;
};
template <class M>
using RowFunction = void (*)(const void* f, int64_t n, int64_t row, M* const* operand);
struct RowFormula {
  const void* f;
  RowFunction<float> f32;
  RowFunction<double> f64;
};

void run_map(const BlockFormula& formula, const Operand* operands, int count);  // operands[0] is written
void run_fold(const BlockFormula& formula, const Shape& full_shape, const Operand* operands, int count);
void run_rows(const RowFormula& formula, const Shape& full_shape, const Operand* operands, int count);

// Flattened: one call that is not inlined would keep the whole loop from being vectorised.
template <class M, class F, size_t... K>
[[gnu::flatten]] void block(const void* erased, int64_t n, M* out, const M* const* in, std::index_sequence<K...>) {
  const F f = *static_cast<const F*>(erased);  // a copy: no store can change its attributes, so they stay in registers
  MIXTAPE_INDEPENDENT
  for (int64_t i = 0; i < n; ++i) out[i] = f(in[K][i]...);
}
template <class F, int inputs>
BlockFormula block_formula(const F& f) {
  return {&f,
          [](const void* e, int64_t n, float* out, const float* const* in) {
            block<float, F>(e, n, out, in, std::make_index_sequence<inputs>());
          },
          [](const void* e, int64_t n, double* out, const double* const* in) {
            block<double, F>(e, n, out, in, std::make_index_sequence<inputs>());
          }};
}

// Written operands come as M*, read ones as const M*: a formula cannot write what it only reads.
template <class M, class F, size_t... K>
void row(const void* erased, int64_t n, int64_t index, M* const* operand, std::index_sequence<K...>) {
  (*static_cast<const F*>(erased))(Lanes<M>{}, n, index, operand[K]...);
}
template <class F, int operands>
RowFormula row_formula(const F& f) {
  return {&f,
          [](const void* e, int64_t n, int64_t i, float* const* p) {
            row<float, F>(e, n, i, p, std::make_index_sequence<operands>());
          },
          [](const void* e, int64_t n, int64_t i, double* const* p) {
            row<double, F>(e, n, i, p, std::make_index_sequence<operands>());
          }};
}

}  // namespace detail

}  // namespace mixtape::kernels

// Which machines the loops below know: the CPU; in a module of device code (MIXTAPE_DEVICE_MODULE) the device alone, so
// that nothing of a row can fall back; in tests that nvcc compiles, both.
#if defined(MIXTAPE_DEVICE_MODULE)
#define MIXTAPE_LOOPS device_only
#elif defined(__CUDACC__)
#define MIXTAPE_LOOPS with_device
#else
#define MIXTAPE_LOOPS host_only
#endif
#if defined(MIXTAPE_DEVICE_MODULE) || defined(__CUDACC__)
#include "core/kernels/loops.cuh"
#endif

namespace mixtape::kernels {

inline namespace MIXTAPE_LOOPS {  // keeps the linker from taking one for the other

/// out[i] = f(in[i]…): inputs (views or random coordinates) broadcast to the shape of `out`.
template <class F, class... In>
void map(const F& f, const View& out, const In&... in) {
  const Operand operands[] = {out, in...};
#if defined(MIXTAPE_DEVICE_MODULE)
  device::map<F, sizeof...(In)>(f, operands);
#else
#if defined(__CUDACC__)
  if (!out.device.is_cpu()) return device::map<F, sizeof...(In)>(f, operands);
#endif
  detail::run_map(detail::block_formula<F, sizeof...(In)>(f), operands, 1 + sizeof...(In));
#endif
}

/// out = the sum of f(in…) over the axes of `full_shape` along which `out` broadcasts, accumulated in M in a fixed
/// order.
template <class F, class... In>
void fold(const F& f, const Shape& full_shape, const View& out, const In&... in) {
  const Operand operands[] = {out, in...};
#if defined(MIXTAPE_DEVICE_MODULE)
  device::fold<F, sizeof...(In)>(f, full_shape, operands);
#else
#if defined(__CUDACC__)
  if (!out.device.is_cpu()) return device::fold<F, sizeof...(In)>(f, full_shape, operands);
#endif
  detail::run_fold(detail::block_formula<F, sizeof...(In)>(f), full_shape, operands, 1 + sizeof...(In));
#endif
}

/// Calls f(lanes, n, row, operand…) for each row: the last axis of `full_shape`, of size n. Every operand is an array
/// of n elements, or one element where its last axis has size 1 (a statistic). Written ones are stored after the call;
/// an absent operand is a null pointer when read, scratch of what its shape says when written or summed.
template <class F, class... Op>
void rows(const F& f, const Shape& full_shape, const Op&... operand) {
  const Operand operands[] = {operand...};
#if defined(MIXTAPE_DEVICE_MODULE)
  device::rows<F, sizeof...(Op)>(f, full_shape, operands);
#else
#if defined(__CUDACC__)
  if (!operands[0].view.device.is_cpu()) return device::rows<F, sizeof...(Op)>(f, full_shape, operands);
#endif
  detail::run_rows(detail::row_formula<F, sizeof...(Op)>(f), full_shape, operands, sizeof...(Op));
#endif
}

/// What a gradient that passes unchanged is summed by.
struct Identity {
  template <class M>
  MIXTAPE_HD M operator()(M x) const {
    return x;
  }
};

}  // namespace MIXTAPE_LOOPS
}  // namespace mixtape::kernels
