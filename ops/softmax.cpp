#include "ops/softmax.h"

namespace mixtape::ops {
namespace {

struct Softmax {
  int64_t axis = -1;

  static constexpr OpInfo info{
      .name = "softmax",
      .precision = Rule::keep,  // f32 inside; probabilities are in [0, 1], where 16 bits lose little
      .inputs = {Input{"x"}},
      .saves = saves_outputs(0),
      .twice = true,
      .doc = "exp(x - max)/Σ exp(x - max) along an axis"};

  Metas infer(const Infer& in) const {
    in.axis(0, axis);
    return {{.shape = in.shape(0), .dtype = in.out()}};
  }

  void forward(const Views& in, const Views& out) const {
    const int along = normalize_axis(axis, in[0].shape.rank(), "softmax");
    const View x = axis_last(in[0], along);
    kernels::rows(SoftmaxRow{}, x.shape, kernels::write(axis_last(out[0], along)), x);
  }

  Tensors backward(autograd::Grads& g) const { return {softmax_gradient(g, axis)}; }

  static Samples<Softmax> samples() {
    return {{{}, {arg({3, 5})}},
            {{0}, {arg({4, 3})}},
            {{1}, {arg({2, 5, 3}, -8, 8)}},
            {{}, {arg({2, 1})}},
            {{}, {arg({3, 0})}},
            {{}, {arg({0, 3})}},
            {{}, {arg({2, 130})}},
            {{}, {arg({})}, "axis -1 is outside input 'x' of shape []"},
            {{2}, {arg({2, 3})}, "axis 2 is outside input 'x' of shape [2, 3]"}};
  }

  Arrays oracle(const Arrays& in) const {
    return {by_rows(in[0], axis, [](const std::vector<double>& x) {
      std::vector<double> y(x.size());
      for (size_t i = 0; i < x.size(); ++i) {
        long double odds = 0;  // 1/y[i]
        for (double other : x) odds += std::exp(static_cast<long double>(other) - x[i]);
        y[i] = static_cast<double>(1 / odds);
      }
      return y;
    })};
  }
};
const Register<Softmax> softmax_row;

}  // namespace

Tensor softmax(const Tensor& x, int64_t axis) { return autograd::apply(Softmax{axis}, {x})[0]; }

}  // namespace mixtape::ops
