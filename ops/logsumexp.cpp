#include "ops/softmax.h"

namespace mixtape::ops {
namespace {

using kernels::write;

struct LogSumExpRow {
  template <class Lanes, class M>
  MIXTAPE_HD void operator()(const Lanes& lanes, int64_t n, int64_t, M* y, M* kept, const M* x) const {
    const auto value = [&](int64_t i) { return x[i]; };
    const M largest = lanes.max(n, value);  // infinite ones are the result: no inf - inf
    *y = *kept = largest + log_sum_above(lanes, n, largest, value);
  }
};
struct LogSumExpRowGrad {
  template <class Lanes, class M>
  MIXTAPE_HD void operator()(const Lanes& lanes, int64_t n, int64_t, M* dx, const M* dy, const M* x, const M* y) const {
    const M slope = *dy, shift = *y;
    const bool any = !(shift == -static_cast<M>(INFINITY));  // log 0: every x is -inf, and none of them moves it
    lanes.each(n, [&](int64_t i) { dx[i] = maths::select(any, slope * maths::exp(x[i] - shift), M(0)); });
  }
};

struct LogSumExp {
  Reduce over{-1};

  static constexpr OpInfo info{.name = "logsumexp",
                               .precision = Rule::full,  // a 16-bit one made KL(p, p) negative
                               .inputs = {Input{"x"}},
                               .saves = saves_inputs(0),
                               .twice = true,
                               .doc = "max + log Σ exp(x - max) along an axis"};

  Metas infer(const Infer& in) const {
    return {{.shape = over.infer(in), .dtype = in.out()},
            {.shape = over.kept(in.shape(0)), .dtype = in.wide(), .saved_only = true}};
  }

  void forward(const Views& in, const Views& out) const {
    const int axis = normalize_axis(*over.axis, in[0].shape.rank(), "logsumexp");
    const View x = axis_last(in[0], axis);
    kernels::rows(LogSumExpRow{}, x.shape, write(axis_last(over.kept_view(out[0], in[0].shape), axis)),
                  write(axis_last(out[1], axis)), x);
  }

  Tensors backward(autograd::Grads& g) const {
    const Tensor x = g.in(0);
    if (g.create_graph()) return {mul(softmax(x, *over.axis), over.kept_tensor(g.dy(), x.shape()))};
    const Tensor dx = empty_like(x);
    const int axis = normalize_axis(*over.axis, x.rank(), "logsumexp");
    const View rows = axis_last(x.view(), axis);
    kernels::rows(LogSumExpRowGrad{}, rows.shape, write(axis_last(dx.view(), axis)),
                  axis_last(over.kept_view(g.dy().view(), x.shape()), axis), rows, axis_last(g.extra(0).view(), axis));
    return {dx};
  }

  static Samples<LogSumExp> samples() {
    Samples<LogSumExp> all;
    for (const auto& [over, shape] : reduce_cases()) {
      if (over.axis) all.push_back({{over}, {arg(shape)}});
    }
    all.push_back({{{0}}, {arg({0, 3})}});
    all.push_back({{{0}}, {arg({})}, "axis 0 is outside input 'x' of shape []"});
    return all;
  }

  Arrays oracle(const Arrays& in) const {
    return {reduced(in[0], over, [](const std::vector<double>& x) {
      long double total = 0;  // against the first element, not the largest
      for (double value : x) total += std::exp(static_cast<long double>(value) - x[0]);
      return x.empty() ? -INFINITY : static_cast<double>(x[0] + std::log(total));
    })};
  }
};
const Register<LogSumExp> logsumexp_row;

}  // namespace

Tensor logsumexp(const Tensor& x, int64_t axis, bool keepdim) {
  return autograd::apply(LogSumExp{{axis, keepdim}}, {x})[0];
}

}  // namespace mixtape::ops
