#include "ops/softmax.h"

namespace mixtape::ops {
namespace {

struct MaskedLogSoftmaxRow {
  template <class Lanes, class M>
  MIXTAPE_HD void operator()(const Lanes& lanes, int64_t n, int64_t, M* y, M* log_total, const M* x,
                             const M* visible) const {
    const M least = -static_cast<M>(INFINITY);
    const auto seen = [&](int64_t i) { return maths::select(visible[i] > M(0), x[i], least); };
    const M largest = lanes.max(n, seen), log_sum = log_sum_above(lanes, n, largest, seen);
    const bool any = !(largest == least);
    const M hidden = maths::select(any, least, M(0));
    lanes.each(n, [&](int64_t i) { y[i] = maths::select(visible[i] > M(0) && any, x[i] - largest - log_sum, hidden); });
    *log_total = largest + log_sum;  // -inf where nothing is visible
  }
};
struct MaskedLogSoftmaxRowGrad {
  template <class Lanes, class M>
  MIXTAPE_HD void operator()(const Lanes& lanes, int64_t n, int64_t, M* dx, const M* dy, const M* x, const M* visible,
                             const M* log_total) const {
    const M total = lanes.sum(n, [&](int64_t i) { return maths::select(visible[i] > M(0), dy[i], M(0)); });
    const M shift = *log_total;
    const bool any = !(shift == -static_cast<M>(INFINITY));
    lanes.each(n, [&](int64_t i) {
      dx[i] = maths::select(visible[i] > M(0) && any, dy[i] - maths::exp(x[i] - shift) * total, M(0));
    });
  }
};

struct MaskedLogSoftmax {
  int64_t axis = -1;

  static constexpr OpInfo info{.name = "masked_log_softmax",
                               .precision = Rule::full,  // as log_softmax
                               .inputs = {Input{"x"}, Input{"mask", Role::mask}},
                               .saves = saves_inputs(0, 1),
                               .doc =
                                   "log_softmax over the places where mask is true; -inf elsewhere, 0 in the whole row "
                                   "where nothing is visible"};

  Metas infer(const Infer& in) const {
    in.axis(0, axis);
    expect_mask_fits(in);
    return {{.shape = in.shape(0), .dtype = in.out()},
            {.shape = Reduce{axis}.kept(in.shape(0)), .dtype = in.wide(), .saved_only = true}};
  }

  void forward(const Views& in, const Views& out) const {
    const int along = normalize_axis(axis, in[0].shape.rank(), "masked_log_softmax");
    const View x = axis_last(in[0], along);
    kernels::rows(MaskedLogSoftmaxRow{}, x.shape, kernels::write(axis_last(out[0], along)),
                  kernels::write(axis_last(out[1], along)), x, axis_last(in[1].broadcast_to(in[0].shape), along));
  }

  Tensors backward(autograd::Grads& g) const {
    const Tensor x = g.in(0), mask = g.in(1), dx = empty_like(x);
    const int along = normalize_axis(axis, x.rank(), "masked_log_softmax");
    const View rows = axis_last(x.view(), along);
    kernels::rows(MaskedLogSoftmaxRowGrad{}, rows.shape, kernels::write(axis_last(dx.view(), along)),
                  axis_last(g.dy().view(), along), rows, axis_last(mask.view().broadcast_to(x.shape()), along),
                  axis_last(g.extra(0).view(), along));
    return {dx, {}};
  }

  static Samples<MaskedLogSoftmax> samples() {
    return {{{}, {arg({3, 5}), mask({3, 5}, {1, 0, 1, 1, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1})}},  // row 1 sees nothing
            {{}, {arg({2, 3, 2, 4}), mask({2, 1, 1, 4}, {1, 1, 0, 0, 1, 1, 1, 0})}},
            {{0}, {arg({4, 3}), mask({4, 1}, {1, 0, 0, 1})}},
            {{}, {arg({2, 130}, -8, 8), mask({1}, {1})}},
            {{}, {arg({2, 3}), mask({}, {0})}},
            {{}, {arg({2, 0}), mask({2, 0}, {})}},
            {{}, {arg({2, 3}), mask({2}, {1, 1})}, "input 'mask' has shape [2], expected one that broadcasts"},
            {{1}, {arg({3}), mask({3}, {1, 1, 1})}, "axis 1 is outside input 'x' of shape [3]"}};
  }

  Arrays oracle(const Arrays& in) const {
    return {by_rows(hidden_as_minus_infinity(in[0], in[1]), axis, [](const std::vector<double>& x) {
      std::vector<double> y(x.size());
      for (size_t i = 0; i < x.size(); ++i) {
        long double odds = 0;
        for (double other : x) odds += other == -INFINITY ? 0 : std::exp(static_cast<long double>(other) - x[i]);
        if (odds > 0) y[i] = static_cast<double>(-std::log(odds));
      }
      return y;
    })};
  }
};
const Register<MaskedLogSoftmax> masked_log_softmax_row;

}  // namespace

Tensor masked_log_softmax(const Tensor& x, const Tensor& mask, int64_t axis) {
  return autograd::apply(MaskedLogSoftmax{axis}, {x, mask})[0];
}

}  // namespace mixtape::ops
