#include "ops/layer_norm.h"
#include "autograd/backward.h"
#include "autograd/call.h"
#include "core/factory.h"
#include "ops/ops.h"

namespace mixtape::ops {
namespace {

using kernels::write;

struct LayerNorm {
  double eps = 1e-12;

  static constexpr OpInfo info{
      .name = "layer_norm",
      .precision = Rule::keep,  // statistics in f32, the residual stream stays 16-bit
      .inputs = {Input{"x"}, Input{"gamma", Role::parameter}, Input{"beta", Role::parameter}},
      .saves = saves_inputs(0, 1),
      .doc = "(x - mean)·rstd·γ + β over the last axis (Ba, Kiros and Hinton, 2016); saves mean and rstd in f32"};

  Metas infer(const Infer& in) const { return normalized_metas(in, 1); }

  void forward(const Views& in, const Views& out) const {
    kernels::rows(NormalizeRow{eps}, in[0].shape, write(out[0]), write(out[1]), write(out[2]), in[0], in[1], in[2]);
  }

  Tensors backward(autograd::Grads& g) const {
    const Tensor x = g.in(0), gamma = g.in(1), mean = g.extra(0), rstd = g.extra(1);
    const Shape shape = x.shape();
    const View dy = g.dy().view();
    Tensor dx, dgamma, dbeta;
    if (g.needs_grad(0)) {
      dx = empty(shape, x.dtype(), x.device());
      kernels::rows(NormalizeRowGrad{}, shape, write(dx.view()), dy, x.view(), mean.view(), rstd.view(), gamma.view());
    }
    if (g.needs_grad(1)) {
      dgamma = empty(gamma.shape(), gamma.dtype(), x.device());
      kernels::fold(GammaTerm{}, shape, dgamma.view(), dy, x.view(), mean.view(), rstd.view());
    }
    if (g.needs_grad(2)) {
      dbeta = empty(gamma.shape(), gamma.dtype(), x.device());
      kernels::fold(kernels::Identity{}, shape, dbeta.view(), dy);
    }
    return {dx, dgamma, dbeta};
  }

  static Samples<LayerNorm> samples() {
    return {{{}, {arg({3, 8}), arg({8}), arg({8})}},
            {{1e-5}, {arg({2, 3, 7}), arg({7}), arg({7})}},
            {{1e-5}, {arg({2, 1}), arg({1}), arg({1})}},
            {{}, {arg({0, 4}), arg({4}), arg({4})}},
            {{}, {arg({5, 128}), arg({128}), arg({128})}},
            {{}, {arg({2, 131}), arg({131}), arg({131})}},
            {{}, {arg({33}), arg({33}), arg({33})}},
            {{}, {arg({2, 4}), arg({3}), arg({4})}, "input 'gamma' has shape [3], expected [4]"},
            {{}, {arg({}), arg({1}), arg({1})}, "at least one axis"}};
  }

  Arrays oracle(const Arrays& in) const {
    Array y = in[0];
    const size_t n = static_cast<size_t>(y.shape.back());
    for (size_t start = 0; start + n <= y.values.size(); start += n) {
      normalize_exactly(y.values.data() + start, in[1], in[2], eps);
    }
    return {y};
  }
};
const Register<LayerNorm> layer_norm_row;

}  // namespace

Tensor layer_norm(const Tensor& x, const Tensor& gamma, const Tensor& beta, double eps) {
  return autograd::apply(LayerNorm{eps}, {x, gamma, beta})[0];
}

}  // namespace mixtape::ops
