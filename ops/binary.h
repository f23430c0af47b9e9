// Binary<F>: a complete elementwise operator with two inputs that broadcast, from a functor with f and two slopes.
//
//   struct Div {
//     static constexpr OpInfo info = binary("div", Rule::widest, saves_inputs(0, 1), "…");
//     template <class T> MIXTAPE_HD T f(T a, T b) const;
//     template <class T> MIXTAPE_HD T dfa(T a, T b) const;  // the slope along a; saves_crosswise(0, 1): dfa(b)
//     template <class T> MIXTAPE_HD T dfb(T a, T b) const;  // the slope along b; saves_crosswise(0, 1): dfb(a)
//     static double oracle(double a, double b);             // the same function by another formula
//   };
//
// Optional: `static constexpr int slope_a, slope_b` instead of dfa and dfb (nothing is saved); for create_graph
// da_ops(dy, a, b) and db_ops(dy, a, b), the backward as ops before the broadcast axes are summed, or `piecewise_linear
// = true`; for the samples range, range_b, or sample_args(shape_a, shape_b).
#pragma once

#include <vector>

#include "ops/broadcast.h"
#include "ops/coordinates.h"
#include "ops/unary.h"

namespace mixtape::ops {

/// The row of an elementwise op with two data inputs.
constexpr OpInfo binary(std::string_view name, Rule rule, Saves saves, std::string_view doc, bool twice = false) {
  return {
      .name = name, .precision = rule, .inputs = {Input{"a"}, Input{"b"}}, .saves = saves, .twice = twice, .doc = doc};
}

/// f(a, b) = slope_a·a + slope_b·b.
template <class F>
concept HasConstantSlopes = requires {
  F::slope_a;
  F::slope_b;
};
template <class F>
concept HasBinaryBackwardOps = requires(const F& f, const Tensor& t) {
  f.da_ops(t, t, t);
  f.db_ops(t, t, t);
};
template <class F>
concept HasRangeB = requires {
  F::range_b;
};
template <class F>
concept HasSampleArgs = requires(const Shape& shape) {
  F::sample_args(shape, shape);
};

namespace detail {
template <class F>
struct BinaryForward {
  F f;
  template <class T>
  MIXTAPE_HD T operator()(T a, T b) const {
    return f.f(a, b);
  }
};
/// The slope along input 0 or 1: of (a, b), or of the other input alone.
template <class F, int input>
struct BinarySlope {
  F f;
  template <class... T>
  MIXTAPE_HD auto operator()(T... saved) const {
    if constexpr (input == 0)
      return f.dfa(saved...);
    else
      return f.dfb(saved...);
  }
};
template <class F, int input>
struct BinaryBackward {
  BinarySlope<F, input> slope;
  template <class T, class... S>
  MIXTAPE_HD T operator()(T dy, S... saved) const {
    return dy * slope(saved...);
  }
};
}  // namespace detail

template <class F>
struct Binary {
  F functor = {};

  static constexpr OpInfo info = F::info;
  static_assert(!info.twice || HasConstantSlopes<F> || HasBinaryBackwardOps<F> || IsPiecewiseLinear<F>,
                "twice needs da_ops and db_ops, constant slopes or piecewise_linear");

  Metas infer(const Infer& in) const { return {{.shape = in.broadcast(0, 1), .dtype = in.out()}}; }

  void forward(const Views& in, const Views& out) const {
    kernels::map(detail::BinaryForward<F>{functor}, out[0], in[0], in[1]);
  }

  Tensors backward(autograd::Grads& g) const {
    return {g.needs_grad(0) ? gradient<0>(g) : Tensor(), g.needs_grad(1) ? gradient<1>(g) : Tensor()};
  }

  static Samples<Binary> samples() {
    const std::pair<Shape, Shape> shapes[] = {
        {{}, {}},         {{1}, {1}},          {{7}, {7}},         {{0}, {0}},     {{3, 5}, {5}},
        {{3, 1}, {1, 5}}, {{2, 3, 4}, {3, 1}}, {{1031}, {1031}},   {{131}, {}},    {{}, {3, 5}},
        {{0, 3}, {3}},    {{1, 3}, {0, 1}},    {{3, 131}, {3, 1}}, {{33}, {5, 33}}};
    Samples<Binary> all;
    for (const auto& [a, b] : shapes) all.push_back({{}, args(a, b)});
    all.push_back({{}, args({2, 3}, {4}), "shapes [2, 3] and [4] of 'a' and 'b' do not broadcast"});
    all.push_back({{}, {indices({2}, {0, 1}), indices({2}, {2, 3})}, "must be a float tensor, got i64"});
    return all;
  }

  Arrays oracle(const Arrays& in) const {
    Array y;
    broadcast_shapes(in[0].shape, in[1].shape, y.shape);
    const Array a = broadcast_array(in[0], y.shape), b = broadcast_array(in[1], y.shape);
    for (size_t i = 0; i < a.values.size(); ++i) y.values.push_back(functor.oracle(a.values[i], b.values[i]));
    return {y};
  }

 private:
  // The gradient of one input.
  template <int i>
  Tensor gradient(autograd::Grads& g) const {
    const Tensor& dy = g.dy();
    if constexpr (HasConstantSlopes<F>) {
      constexpr int slope = i == 0 ? F::slope_a : F::slope_b;
      if (g.create_graph()) return sum_to(slope == 1 ? dy : neg(dy), g.meta(i).shape);
      if (slope == 1 && dy.shape() == g.meta(i).shape) return dy;  // it passes as it is: no copy
      return reduced_gradient(g, i, detail::Times<slope>{}, dy);
    } else if constexpr (info.saves.crosswise) {
      const Tensor other = g.in(1 - i);
      if (g.create_graph()) return with_graph<i>(g, other, other);  // da_ops reads b alone, db_ops a alone
      return reduced_gradient(g, i, detail::BinaryBackward<F, i>{{functor}}, dy, other);
    } else {
      const Tensor a = g.in(0), b = g.in(1);
      if (g.create_graph()) return with_graph<i>(g, a, b);
      return reduced_gradient(g, i, detail::BinaryBackward<F, i>{{functor}}, dy, a, b);
    }
  }

  template <int i>
  Tensor with_graph(autograd::Grads& g, const Tensor& a, const Tensor& b) const {
    Tensor full;
    if constexpr (HasBinaryBackwardOps<F>) {
      full = i == 0 ? functor.da_ops(g.dy(), a, b) : functor.db_ops(g.dy(), a, b);
    } else if constexpr (IsPiecewiseLinear<F>) {  // not a branch of the tape: the slopes are constants
      static_assert(F::piecewise_linear);         // nvcc does not see that a concept names it
      const Tensor slope = empty(g.dy().shape(), g.dy().dtype(), g.dy().device());
      kernels::map(detail::BinarySlope<F, i>{functor}, slope.view(), a.view(), b.view());
      full = mul(g.dy(), slope);
    }
    return sum_to(full, g.meta(i).shape);
  }

  static std::vector<Arg> args(const Shape& a, const Shape& b) {
    if constexpr (HasSampleArgs<F>) {
      return F::sample_args(a, b);
    } else {
      Range range_a{}, range_b{};
      if constexpr (HasSampleRange<F>) range_a = range_b = F::range;
      if constexpr (HasRangeB<F>) range_b = F::range_b;
      return {arg(a, range_a.low, range_a.high), arg(b, range_b.low, range_b.high)};
    }
  }
};

}  // namespace mixtape::ops
