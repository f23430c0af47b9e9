#include "ops/softmax.h"

namespace mixtape::ops {
namespace {

struct MaskedSoftmax {
  int64_t axis = -1;

  static constexpr OpInfo info{
      .name = "masked_softmax",
      .precision = Rule::keep,  // as softmax
      .inputs = {Input{"x"}, Input{"mask", Role::mask}},
      .saves = saves_outputs(0),
      .twice = true,
      .doc = "softmax over the places where mask is true; 0 elsewhere, and in the whole row where nothing is visible"};

  Metas infer(const Infer& in) const {
    in.axis(0, axis);
    expect_mask_fits(in);
    return {{.shape = in.shape(0), .dtype = in.out()}};
  }

  void forward(const Views& in, const Views& out) const {
    const int along = normalize_axis(axis, in[0].shape.rank(), "masked_softmax");
    const View x = axis_last(in[0], along);
    kernels::rows(MaskedSoftmaxRow{}, x.shape, kernels::write(axis_last(out[0], along)), x,
                  axis_last(in[1].broadcast_to(in[0].shape), along));
  }

  Tensors backward(autograd::Grads& g) const { return {softmax_gradient(g, axis), {}}; }

  static Samples<MaskedSoftmax> samples() {
    return {{{}, {arg({3, 5}), mask({3, 5}, {1, 0, 1, 1, 0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1})}},  // row 1 sees nothing
            {{}, {arg({2, 3, 2, 4}), mask({2, 1, 1, 4}, {1, 1, 0, 0, 1, 1, 1, 0})}},
            {{0}, {arg({4, 3}), mask({4, 1}, {1, 0, 0, 1})}},
            {{1}, {arg({2, 3, 5}), mask({3, 1}, {1, 1, 0})}},
            {{}, {arg({2, 130}, -8, 8), mask({1}, {1})}},
            {{}, {arg({2, 3}), mask({}, {0})}},
            {{}, {arg({2, 0}), mask({2, 0}, {})}},
            {{}, {arg({2, 3}), mask({2}, {1, 1})}, "input 'mask' has shape [2], expected one that broadcasts"},
            {{}, {arg({3}), mask({2, 3}, {1, 1, 1, 1, 1, 1})}, "expected one that broadcasts to that of x, [3]"},
            {{}, {arg({2}), indices({2}, {1, 1})}, "input 'mask' is a mask and must be bool, got i64"}};
  }

  Arrays oracle(const Arrays& in) const {
    return {by_rows(hidden_as_minus_infinity(in[0], in[1]), axis, [](const std::vector<double>& x) {
      std::vector<double> y(x.size());
      for (size_t i = 0; i < x.size(); ++i) {
        if (x[i] == -INFINITY) continue;
        long double odds = 0;
        for (double other : x) odds += std::exp(static_cast<long double>(other) - x[i]);
        y[i] = static_cast<double>(1 / odds);
      }
      return y;
    })};
  }
};
const Register<MaskedSoftmax> masked_softmax_row;

}  // namespace

Tensor masked_softmax(const Tensor& x, const Tensor& mask, int64_t axis) {
  return autograd::apply(MaskedSoftmax{axis}, {x, mask})[0];
}

}  // namespace mixtape::ops
