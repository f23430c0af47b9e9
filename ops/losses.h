// What the losses share: how terms become a loss, the check of class targets, and ElementLoss<F>, a complete row from a
// formula with two slopes.
//
// A loss is Σ terms / divisor. The divisor of `mean` is the number of items of this call, or `items` where the caller
// knows better: the micro-batches of an accumulation window divide by the items of the whole window, and their
// gradients then add up to those of one large batch. A mean of no items is 0, with gradient 0, not 0/0.
#pragma once

#include <algorithm>
#include <cmath>

#include "autograd/backward.h"
#include "autograd/call.h"
#include "core/factory.h"
#include "core/kernels/basic.h"
#include "core/kernels/layout.h"
#include "core/kernels/loops.h"
#include "ops/coordinates.h"
#include "ops/ops.h"
#include "ops/reduce.h"

namespace mixtape::ops {

/// The shape of a loss whose terms have shape `terms`.
inline Shape loss_shape(Reduction reduction, const Shape& terms) {
  return reduction == Reduction::none ? terms : Shape{};
}
inline void expect_items(const Infer& in, Reduction reduction, double items) {
  if (!(items >= 0 && std::isfinite(items))) in.fail(message("items is ", items, ", expected a finite number >= 0"));
  if (items > 0 && reduction != Reduction::mean) in.fail("items divides the mean: it means nothing for sum and none");
}

/// Numbers of the losses' oracles: f's terms summed and divided as `reduction` says.
inline Array oracle_loss(Reduction reduction, const Shape& shape, std::vector<double> terms, double divisor) {
  if (reduction == Reduction::none) return {shape, std::move(terms)};
  double total = 0;
  for (double term : terms) total += term / (reduction == Reduction::mean ? std::max(divisor, 1e-300) : 1.0);
  return {{}, {total}};
}

// --- class targets ---

struct CountsAsItem {
  double ignore;
  template <class M>
  MIXTAPE_HD M operator()(M target) const {
    return maths::select(target == static_cast<M>(ignore), M(0), M(1));
  }
};
struct AtLeastOne {
  template <class M>
  MIXTAPE_HD M operator()(M x) const {
    return maths::max(x, M(1));
  }
};
struct Quotient {
  template <class M>
  MIXTAPE_HD M operator()(M a, M b) const {
    return a / b;
  }
};

using kernels::as_column;

/// A gradient beside each row: [..] gets its column, the one number of a mean or sum stays rank 0 and broadcasts.
inline View row_gradient(Reduction reduction, const View& dy) {
  return reduction == Reduction::none ? as_column(dy) : dy;
}
inline Tensor row_gradient(Reduction reduction, const Tensor& dy) {
  return reduction == Reduction::none ? unsqueeze(dy, -1) : dy;
}

/// Refuses a target that is neither a class nor ignore_index, naming where it stands. (A GPU's targets are not looked
/// at, which would stop its stream: there the row formulas give such a target the loss NaN.)
inline void check_targets(std::string_view op, const View& targets, int64_t classes, int64_t ignore_index) {
  if (!targets.device.is_cpu()) return;
  for (size_t i = 0; i < static_cast<size_t>(targets.numel()); ++i) {
    const Dims at = coordinates(targets.shape, i);
    int64_t offset = 0;
    for (int axis = 0; axis < at.rank(); ++axis) offset += at[axis] * targets.strides[axis];
    const int64_t target = targets.as<const int64_t>()[offset];
    if ((target >= 0 && target < classes) || target == ignore_index) continue;
    fail(ErrorKind::data, "E-TARGET",
         message(op, ": target ", target, " at position ", at.str(), " is no class from 0 to ", classes - 1,
                 " and not ignore_index ", ignore_index));
  }
}

/// What cross_entropy and nll have in common: rows of class scores [.., C] and i64 targets [..].
struct ClassLoss {
  ClassLossOptions options;

  Shape infer(const Infer& in) const {
    in.expect(in.shape(0).rank() >= 1 && in.shape(0).back() >= 1, 0, "a last axis of at least one class");
    in.expect(in.shape(0).back() <= int64_t{1} << 24, 0, "at most 2^24 classes");  // row formulas see f32 targets
    Shape rows = in.shape(0);
    rows.erase(rows.rank() - 1);
    in.expect(in.shape(1) == rows, 1, message(rows.str(), ", one target a row"));
    expect_items(in, options.reduction, options.items);
    return loss_shape(options.reduction, rows);
  }

  /// loss = Σ losses / divisor; `divisor` (rank 0) is absent when nothing is recorded.
  void reduce(const View& losses, const View& targets, const View& loss, const View& divisor) const {
    Tensor own;
    View by = divisor;
    if (!by) by = (own = empty({}, losses.dtype, losses.device)).view();
    if (options.reduction == Reduction::mean && options.items == 0) {
      kernels::fold(CountsAsItem{static_cast<double>(options.ignore_index)}, targets.shape, by, targets);
      kernels::map(AtLeastOne{}, by, by);
    } else {
      kernels::fill(by, options.reduction == Reduction::mean ? options.items : 1.0);
    }
    if (options.reduction == Reduction::none) return kernels::copy(losses, loss);
    const Tensor total = empty({}, losses.dtype, losses.device);
    kernels::fold(kernels::Identity{}, losses.shape, total.view(), losses);
    kernels::map(Quotient{}, loss, total.view(), by);
  }

  /// What the oracle divides by.
  double divisor(const Array& targets) const {
    if (options.items > 0) return options.items;
    return static_cast<double>(std::count_if(targets.values.begin(), targets.values.end(),
                                             [&](double t) { return t != static_cast<double>(options.ignore_index); }));
  }
};

// --- losses of pairs of elements ---

/// A complete loss of x and targets of one shape, from a functor:
///
///   struct Mse {
///     static constexpr OpInfo info = …;                         // inputs x and targets
///     template <class T> MIXTAPE_HD T f(T x, T t) const;
///     template <class T> MIXTAPE_HD T dx(T x, T t) const;       // the slopes
///     template <class T> MIXTAPE_HD T dt(T x, T t) const;
///     static double oracle(double x, double t);                 // f by another formula
///     static constexpr double range[4];                         // of the samples: x from, to, targets from, to
///     static Tensor dx_ops(const Tensor& x, const Tensor& t);   // with info.twice: the slopes as ops
///     static Tensor dt_ops(const Tensor& x, const Tensor& t);
///   };
template <class F>
struct ElementLoss {
  LossOptions options;

  static constexpr OpInfo info = F::info;

  struct Value {
    template <class M>
    MIXTAPE_HD M operator()(M x, M t) const {
      return F{}.f(x, t);
    }
  };
  struct SlopeX {
    double divisor;
    template <class M>
    MIXTAPE_HD M operator()(M dy, M x, M t) const {
      return dy / static_cast<M>(divisor) * F{}.dx(x, t);
    }
  };
  struct SlopeT {
    double divisor;
    template <class M>
    MIXTAPE_HD M operator()(M dy, M x, M t) const {
      return dy / static_cast<M>(divisor) * F{}.dt(x, t);
    }
  };

  Metas infer(const Infer& in) const {
    in.expect(in.shape(1) == in.shape(0), 1, message(in.shape(0).str(), ", that of '", info.inputs[0].name, "'"));
    expect_items(in, options.reduction, options.items);
    return {{.shape = loss_shape(options.reduction, in.shape(0)), .dtype = in.out()}};
  }

  void forward(const Views& in, const Views& out) const {
    if (options.reduction == Reduction::none) return kernels::map(Value{}, out[0], in[0], in[1]);
    const Tensor total = empty({}, wide(in[0].dtype), in[0].device);
    kernels::fold(Value{}, in[0].shape, total.view(), in[0], in[1]);
    kernels::map(DividedBy{divisor(in[0].shape)}, out[0], total.view());
  }

  Tensors backward(autograd::Grads& g) const {
    const Tensor x = g.in(0), t = g.in(1);
    const double by = divisor(x.shape());
    if constexpr (info.twice) {
      if (g.create_graph()) {
        const Tensor share = div(g.dy(), full({}, by, x.dtype(), x.device()));
        return {g.needs_grad(0) ? mul(share, F::dx_ops(x, t)) : Tensor(),
                g.needs_grad(1) ? mul(share, F::dt_ops(x, t)) : Tensor()};
      }
    }
    Tensor dx, dt;
    if (g.needs_grad(0)) {
      dx = empty_like(x);
      kernels::map(SlopeX{by}, dx.view(), g.dy().view(), x.view(), t.view());
    }
    if (g.needs_grad(1)) {
      dt = empty_like(t);
      kernels::map(SlopeT{by}, dt.view(), g.dy().view(), x.view(), t.view());
    }
    return {dx, dt};
  }

  static Samples<ElementLoss> samples() {
    const auto pair = [](const Shape& shape) {
      return std::vector<Arg>{arg(shape, F::range[0], F::range[1]), arg(shape, F::range[2], F::range[3])};
    };
    Samples<ElementLoss> all;
    for (const Shape& shape : {Shape{}, Shape{1}, Shape{7}, Shape{0}, Shape{3, 5}, Shape{2, 3, 4}, Shape{131}}) {
      for (const Reduction reduction : {Reduction::mean, Reduction::sum, Reduction::none}) {
        all.push_back({{{reduction}}, pair(shape)});
      }
    }
    all.push_back({{{Reduction::mean, 12}}, pair({3, 2})});
    all.push_back({{}, {arg({3}), arg({2})}, "input 'targets' has shape [2], expected [3]"});
    all.push_back({{{Reduction::sum, 4}}, pair({3}), "items divides the mean"});
    all.push_back({{{Reduction::mean, -1}}, pair({3}), "items is -1, expected a finite number >= 0"});
    return all;
  }

  Arrays oracle(const Arrays& in) const {
    std::vector<double> terms;
    for (size_t i = 0; i < in[0].values.size(); ++i) terms.push_back(F::oracle(in[0].values[i], in[1].values[i]));
    return {oracle_loss(options.reduction, in[0].shape, std::move(terms), divisor(in[0].shape))};
  }

 private:
  double divisor(const Shape& shape) const {
    if (options.reduction != Reduction::mean) return 1;
    return options.items > 0 ? options.items : std::max(1.0, static_cast<double>(shape.numel()));
  }
};

/// The row of an element loss.
constexpr OpInfo element_loss(std::string_view name, Rule rule, Input x, bool twice, std::string_view doc) {
  return {.name = name,
          .precision = rule,
          .inputs = {x, Input{"targets"}},
          .saves = saves_inputs(0, 1),
          .twice = twice,
          .doc = doc};
}

}  // namespace mixtape::ops
