// Unary<F>: a complete elementwise operator from a functor with f and df.
//
//   struct Gelu {
//     static constexpr OpInfo info = unary("gelu", Rule::keep, saves_inputs(0), "…");
//     template <class T> MIXTAPE_HD T f(T x) const;             // float, or double in gradcheck; never a 16-bit type
//     template <class T> MIXTAPE_HD T df(T x) const;            // the derivative at the input, or, with
//     saves_outputs(0),
//                                                               // at the output: df(y)
//     static double oracle(double x);                           // the same function by another formula
//   };
#pragma once

#include "autograd/backward.h"
#include "autograd/call.h"
#include "core/factory.h"
#include "core/kernels/loops.h"

namespace mixtape::ops {

/// The row of an elementwise op with one data input.
constexpr OpInfo unary(std::string_view name, Rule rule, Saves saves, std::string_view doc, bool twice = false) {
  return {.name = name, .precision = rule, .inputs = {Input{"x"}}, .saves = saves, .twice = twice, .doc = doc};
}

/// A functor that knows its backward as ops, for create_graph.
template <class F>
concept HasBackwardOps = requires(const F& f, const Tensor& dy, const Tensor& saved) {
  f.backward_ops(dy, saved);
};
/// A functor with attributes that its oracle needs has a member oracle; either way it is called as f.oracle(x).
template <class F>
concept HasSampleRange = requires {
  F::range;
};
template <class F>
concept HasVariants = requires {
  F::variants();
};

struct Range {
  double low = -4.0, high = 4.0;
};

namespace detail {
template <class F>
struct Forward {
  F f;
  template <class T>
  MIXTAPE_HD T operator()(T x) const {
    return f.f(x);
  }
};
template <class F>
struct Backward {
  F f;
  template <class T>
  MIXTAPE_HD T operator()(T dy, T saved) const {
    return dy * f.df(saved);
  }
};
}  // namespace detail

template <class F>
struct Unary {
  F functor = {};

  static constexpr OpInfo info = F::info;

  Metas infer(const Infer& in) const { return {{.shape = in.shape(0), .dtype = in.out()}}; }

  void forward(const Views& in, const Views& out) const { kernels::map(detail::Forward<F>{functor}, out[0], in[0]); }

  Tensors backward(autograd::Grads& g) const {
    const Tensor saved = info.saves.outputs ? g.out(0) : g.in(0);
    if constexpr (HasBackwardOps<F>) {
      if (g.create_graph()) return {functor.backward_ops(g.dy(), saved)};
    }
    Tensor dx = empty(g.meta(0).shape, g.meta(0).dtype, saved.device());
    kernels::map(detail::Backward<F>{functor}, dx.view(), g.dy().view(), saved.view());
    return {dx};
  }

  static Samples<Unary> samples() {
    Range range{};
    if constexpr (HasSampleRange<F>) range = F::range;
    std::vector<F> variants(1);
    if constexpr (HasVariants<F>) variants = F::variants();
    Samples<Unary> all;
    for (const F& f : variants) {
      for (const Shape& shape : {Shape{}, Shape{1}, Shape{7}, Shape{0}, Shape{3, 5}, Shape{2, 3, 4}, Shape{1031}}) {
        all.push_back({{f}, {arg(shape, range.low, range.high)}});
      }
    }
    all.push_back({{variants[0]}, {indices({2}, {0, 1})}, "must be a float tensor, got i64"});
    return all;
  }

  Arrays oracle(const Arrays& in) const {
    Array out = in[0];
    for (double& value : out.values) value = functor.oracle(value);
    return {out};
  }
};

}  // namespace mixtape::ops
