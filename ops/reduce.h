// What the reducing ops share: which axes go, how results are laid against what they were made of, and the plain
// arithmetic of their oracles.
#pragma once

#include <optional>

#include "core/kernels/basic.h"
#include "core/kernels/loops.h"
#include "ops/coordinates.h"
#include "ops/ops.h"

namespace mixtape::ops {

/// Which axes a reduction takes away: one, or all.
struct Reduce {
  std::optional<int64_t> axis = {};
  bool keepdim = false;  ///< they stay, with size 1

  bool takes(int i, int rank) const { return !axis || i == (*axis < 0 ? *axis + rank : *axis); }
  /// The shape of the result against the input: axes that go have size 1. It broadcasts to `full`.
  Shape kept(Shape full) const {
    for (int i = 0, rank = full.rank(); i < rank; ++i) {
      if (takes(i, rank)) full[i] = 1;
    }
    return full;
  }
  /// The shape that the user sees.
  Shape result(const Shape& full) const {
    if (keepdim) return kept(full);
    Shape shape;
    for (int i = 0; i < full.rank(); ++i) {
      if (!takes(i, full.rank())) shape.push_back(full[i]);
    }
    return shape;
  }
  /// How many elements go into one result.
  int64_t terms(const Shape& full) const {
    int64_t product = 1;
    for (int i = 0; i < full.rank(); ++i) product *= takes(i, full.rank()) ? full[i] : 1;
    return product;
  }
  /// A result (or its gradient) read in the shape `kept`.
  View kept_view(View v, const Shape& full) const {
    if (v.shape.rank() == full.rank()) return v;
    for (int i = 0; i < full.rank(); ++i) {
      if (takes(i, full.rank())) v.shape.insert(i, 1), v.strides.insert(i, 0);
    }
    return v;
  }
  Tensor kept_tensor(const Tensor& t, const Shape& full) const { return reshape(t, kept(full)); }

  Shape infer(const Infer& in) const {
    if (axis) in.axis(0, *axis);
    return result(in.shape(0));
  }
  /// Throws where there is nothing to reduce and no neutral element.
  void expect_terms(const Infer& in) const {
    if (terms(in.shape(0)) == 0)
      in.fail(message("there is nothing to reduce in a tensor of shape ", in.shape(0).str()));
  }
};

/// The gradient of each result, given to every element that it was made of: a view.
inline Tensor spread(const Reduce& over, const Tensor& dy, const Shape& full) {
  return expand(over.kept_tensor(dy, full), full);
}

/// x / by, in the formula's own arithmetic: a mean divides its f32 sum, not its terms, and rounds after that.
struct DividedBy {
  double by;
  template <class M>
  MIXTAPE_HD M operator()(M x) const {
    return x / static_cast<M>(by);
  }
};

/// `v` with `axis` moved to the end: what kernels::rows walks along. An absent view stays absent.
inline View axis_last(View v, int axis) {
  const int64_t size = v.shape[axis], stride = v.strides[axis];
  v.shape.erase(axis);
  v.strides.erase(axis);
  v.shape.push_back(size);
  v.strides.push_back(stride);
  return v;
}

// --- samples and oracles ---

/// What every reduction is tried on: all axes, each kind of axis, size 1, no element at all, rows longer than a block.
inline std::vector<std::pair<Reduce, Shape>> reduce_cases() {
  return {
      {{}, {}},          {{}, {7}},     {{{}, true}, {3, 5}}, {{-1}, {3, 130}}, {{0}, {131, 3}}, {{1, true}, {2, 3, 5}},
      {{-2}, {4, 1, 3}}, {{1}, {0, 4}}, {{0}, {1031}},        {{}, {5, 2, 31}}};
}

/// y[result] = f(the values that go into it, in row-major order).
template <class F>
Array reduced(const Array& x, const Reduce& over, const F& f) {
  const Shape kept = over.kept(x.shape);
  std::vector<std::vector<double>> groups(static_cast<size_t>(kept.numel()));
  for (size_t i = 0; i < x.values.size(); ++i) {
    Dims at = coordinates(x.shape, i);
    for (int axis = 0; axis < kept.rank(); ++axis) at[axis] %= kept[axis];
    groups[place(kept, at)].push_back(x.values[i]);
  }
  Array y{over.result(x.shape), {}};
  for (const std::vector<double>& group : groups) y.values.push_back(f(group));
  return y;
}

/// y = f(row) for each row along `axis`; f takes and returns a vector.
template <class F>
Array by_rows(const Array& x, int64_t axis, const F& f) {
  const Reduce over{axis};
  const Shape kept = over.kept(x.shape);
  std::vector<std::vector<double>> rows(static_cast<size_t>(kept.numel()));
  const auto row_of = [&](size_t i) {
    Dims at = coordinates(x.shape, i);
    for (int a = 0; a < kept.rank(); ++a) at[a] %= kept[a];
    return place(kept, at);
  };
  for (size_t i = 0; i < x.values.size(); ++i) rows[row_of(i)].push_back(x.values[i]);
  for (std::vector<double>& row : rows) row = f(row);
  std::vector<size_t> next(rows.size());
  Array y = x;
  for (size_t i = 0; i < y.values.size(); ++i) {
    const size_t r = row_of(i);
    y.values[i] = rows[r][next[r]++];
  }
  return y;
}

}  // namespace mixtape::ops
