#include "ops/softmax.h"

namespace mixtape::ops {
namespace {

struct LogSoftmaxRow {
  template <class Lanes, class M>
  MIXTAPE_HD void operator()(const Lanes& lanes, int64_t n, int64_t, M* y, M* log_total, const M* x) const {
    const auto value = [&](int64_t i) { return x[i]; };
    const M largest = lanes.max(n, value), log_sum = log_sum_above(lanes, n, largest, value);
    lanes.each(n, [&](int64_t i) { y[i] = x[i] - largest - log_sum; });  // the small difference first
    *log_total = largest + log_sum;
  }
};
struct LogSoftmaxRowGrad {
  template <class Lanes, class M>
  MIXTAPE_HD void operator()(const Lanes& lanes, int64_t n, int64_t, M* dx, const M* dy, const M* x,
                             const M* log_total) const {
    const M total = lanes.sum(n, [&](int64_t i) { return dy[i]; }), shift = *log_total;
    lanes.each(n, [&](int64_t i) { dx[i] = dy[i] - maths::exp(x[i] - shift) * total; });
  }
};

struct LogSoftmax {
  int64_t axis = -1;

  static constexpr OpInfo info{.name = "log_softmax",
                               .precision = Rule::full,  // 36.1 is 36 in bf16, and exp makes a factor of it
                               .inputs = {Input{"x"}},
                               .saves = saves_inputs(0),
                               .twice = true,
                               .doc = "x - log Σ exp(x) along an axis; saves x and the logarithm, not its own output"};

  Metas infer(const Infer& in) const {
    in.axis(0, axis);
    return {{.shape = in.shape(0), .dtype = in.out()},
            {.shape = Reduce{axis}.kept(in.shape(0)), .dtype = in.wide(), .saved_only = true}};
  }

  void forward(const Views& in, const Views& out) const {
    const int along = normalize_axis(axis, in[0].shape.rank(), "log_softmax");
    const View x = axis_last(in[0], along);
    kernels::rows(LogSoftmaxRow{}, x.shape, kernels::write(axis_last(out[0], along)),
                  kernels::write(axis_last(out[1], along)), x);
  }

  Tensors backward(autograd::Grads& g) const {
    const Tensor x = g.in(0), dy = g.dy();
    if (g.create_graph()) return {sub(dy, mul(softmax(x, axis), sum(dy, axis, true)))};
    const int along = normalize_axis(axis, x.rank(), "log_softmax");
    const Tensor dx = empty_like(x);
    const View rows = axis_last(x.view(), along);
    kernels::rows(LogSoftmaxRowGrad{}, rows.shape, kernels::write(axis_last(dx.view(), along)),
                  axis_last(dy.view(), along), rows, axis_last(g.extra(0).view(), along));
    return {dx};
  }

  static Samples<LogSoftmax> samples() {
    return {{{}, {arg({3, 5})}},
            {{0}, {arg({4, 3})}},
            {{1}, {arg({2, 5, 3}, -8, 8)}},
            {{}, {arg({2, 1})}},
            {{}, {arg({3, 0})}},
            {{}, {arg({2, 130})}},
            {{}, {arg({})}, "axis -1 is outside input 'x' of shape []"},
            {{-3}, {arg({2, 3})}, "axis -3 is outside input 'x' of shape [2, 3]"}};
  }

  Arrays oracle(const Arrays& in) const {
    return {by_rows(in[0], axis, [](const std::vector<double>& x) {
      std::vector<double> y(x.size());
      for (size_t i = 0; i < x.size(); ++i) {
        long double odds = 0;
        for (double other : x) odds += std::exp(static_cast<long double>(other) - x[i]);
        y[i] = static_cast<double>(-std::log(odds));
      }
      return y;
    })};
  }
};
const Register<LogSoftmax> log_softmax_row;

}  // namespace

Tensor log_softmax(const Tensor& x, int64_t axis) { return autograd::apply(LogSoftmax{axis}, {x})[0]; }

}  // namespace mixtape::ops
