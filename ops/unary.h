// Unary<F>: a complete elementwise operator from a functor with f and df.
//
//   struct Gelu {
//     static constexpr OpInfo info = unary("gelu", Rule::keep, saves_inputs(0), "…");
//     template <class T> MIXTAPE_HD T f(T x) const;   // float, or double in gradcheck; never a 16-bit type
//     template <class T> MIXTAPE_HD T df(T x) const;  // the slope at the input; with saves_outputs(0) at the output
//     static double oracle(double x);                 // the same function by another formula
//   };
//
// Attributes are members. Optional: `static constexpr int slope` instead of df (f(x) = slope·x, nothing is saved); for
// create_graph d2f, the slope of df, or `piecewise_linear = true`; check(infer) for attributes; range or
// sample_range(), variants(), refused() for the samples.
#pragma once

#include <utility>

#include "autograd/backward.h"
#include "autograd/call.h"
#include "core/factory.h"
#include "core/kernels/loops.h"
#include "ops/ops.h"

namespace mixtape::ops {

/// The row of an elementwise op with one data input.
constexpr OpInfo unary(std::string_view name, Rule rule, Saves saves, std::string_view doc, bool twice = false) {
  return {.name = name, .precision = rule, .inputs = {Input{"x"}}, .saves = saves, .twice = twice, .doc = doc};
}

struct Range {
  double low = -4.0, high = 4.0;
};

/// The slope is a constant: f(x) = slope·x.
template <class F>
concept HasConstantSlope = requires {
  F::slope;
};
/// df has a slope itself: the row can be differentiated twice.
template <class F>
concept HasSecondSlope = requires(const F& f, double x) {
  f.d2f(x);
};
/// The slope does not change with the input (but at kinks): for create_graph it is a constant tensor.
template <class F>
concept IsPiecewiseLinear = requires {
  requires F::piecewise_linear;
};
/// Attributes that may be wrong, or that an output's dtype cannot hold.
template <class F>
concept HasCheck = requires(const F& f, const Infer& in) {
  f.check(in);
};
template <class F>
concept HasSampleRange = requires {
  F::range;
};
template <class F>
concept HasOwnSampleRange = requires(const F& f) {
  f.sample_range();
};
template <class F>
concept HasVariants = requires {
  F::variants();
};
template <class F>
concept HasRefused = requires {
  F::refused();
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
struct Slope {
  F f;
  template <class T>
  MIXTAPE_HD T operator()(T saved) const {
    return f.df(saved);
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
/// df as an op of its own, for create_graph; no row of the table.
template <class F>
struct SlopeOf {
  F functor;
  static constexpr OpInfo info = unary("slope", Rule::keep, saves_inputs(0), "the slope of a unary row");
  template <class T>
  MIXTAPE_HD T f(T x) const {
    return functor.df(x);
  }
  template <class T>
  MIXTAPE_HD T df(T x) const {
    return functor.d2f(x);
  }
  double oracle(double x) const { return functor.df(x); }
};
template <int factor>
struct Times {
  template <class T>
  MIXTAPE_HD T operator()(T dy) const {
    return T(factor) * dy;
  }
};
}  // namespace detail

template <class F>
struct Unary {
  F functor = {};

  static constexpr OpInfo info = F::info;
  static_assert(!info.twice || HasConstantSlope<F> || HasSecondSlope<F> || IsPiecewiseLinear<F>,
                "twice needs d2f, a constant slope or piecewise_linear");

  Metas infer(const Infer& in) const {
    if constexpr (HasCheck<F>) functor.check(in);
    return {{.shape = in.shape(0), .dtype = in.out()}};
  }

  void forward(const Views& in, const Views& out) const { kernels::map(detail::Forward<F>{functor}, out[0], in[0]); }

  Tensors backward(autograd::Grads& g) const {
    if constexpr (HasConstantSlope<F>) {
      if (g.create_graph()) return autograd::apply(*this, {g.dy()});
      return {mapped(g, detail::Times<F::slope>{}, g.dy())};
    } else {
      const Tensor saved = info.saves.outputs ? g.out(0) : g.in(0);
      if constexpr (HasSecondSlope<F>) {
        if (g.create_graph()) return {mul(g.dy(), autograd::apply(Unary<detail::SlopeOf<F>>{{functor}}, {saved})[0])};
      } else if constexpr (IsPiecewiseLinear<F>) {
        static_assert(F::piecewise_linear);  // nvcc does not see that a concept names it
        if (g.create_graph()) return {mul(g.dy(), mapped(g, detail::Slope<F>{functor}, saved))};
      }
      return {mapped(g, detail::Backward<F>{functor}, g.dy(), saved)};
    }
  }

  static Samples<Unary> samples() {
    std::vector<F> variants(1);
    if constexpr (HasVariants<F>) variants = F::variants();
    Samples<Unary> all;
    const auto add = [&](const F& f, std::initializer_list<Shape> shapes) {
      Range range{};
      if constexpr (HasSampleRange<F>) range = F::range;
      if constexpr (HasOwnSampleRange<F>) range = f.sample_range();
      for (const Shape& shape : shapes) all.push_back({{f}, {arg(shape, range.low, range.high)}});
    };
    add(variants[0], {{}, {1}, {7}, {0}, {3, 5}, {2, 3, 4}, {1031}});
    for (size_t i = 1; i < variants.size(); ++i) add(variants[i], {{}, {3, 5}, {131}});
    if constexpr (HasRefused<F>) {
      for (const auto& [f, words] : F::refused()) all.push_back({{f}, {arg({3})}, words});
    }
    all.push_back({{variants[0]}, {indices({2}, {0, 1})}, "must be a float tensor, got i64"});
    return all;
  }

  Arrays oracle(const Arrays& in) const {
    Array out = in[0];
    for (double& value : out.values) value = functor.oracle(value);
    return {out};
  }

 private:
  template <class Formula, class... In>
  static Tensor mapped(const autograd::Grads& g, const Formula& formula, const In&... in) {
    const Tensor out = empty(g.meta(0).shape, g.meta(0).dtype, g.dy().device());
    kernels::map(formula, out.view(), in.view()...);
    return out;
  }
};

}  // namespace mixtape::ops
