#include "ops/dropout_add_layer_norm.h"
#include "autograd/backward.h"
#include "autograd/call.h"
#include "core/factory.h"
#include "ops/ops.h"

namespace mixtape::ops {
namespace {

using kernels::random_rows;
using kernels::sum_rows_into;
using kernels::write;

struct DropoutAddLayerNorm {
  double p = 0.0;
  double eps = 1e-12;
  RngCoordinates at = {};

  static constexpr OpInfo info{
      .name = "dropout_add_layer_norm",
      .precision = Rule::keep,  // f32 between the reading of x and the rounding of y
      .inputs = {Input{"x"}, Input{"residual"}, Input{"gamma", Role::parameter}, Input{"beta", Role::parameter},
                 Input{.name = "places", .role = Role::index, .optional = true}},
      .saves = saves_inputs(0, 1, 2, 4),
      .absorbs = "dropout add layer_norm",
      .doc = "layer_norm(dropout(x) + residual) in one pass each way; saves mean and rstd in f32"};

  Metas infer(const Infer& in) const {
    if (!(p >= 0.0 && p <= 1.0)) in.fail(message("p = ", p, " is not in [0, 1]"));
    in.expect(in.shape(1) == in.shape(0), 1, in.shape(0).str() + ", that of x");
    Metas metas = normalized_metas(in, 2);
    if (in.has(4)) expect_places(in, 4);
    return metas;
  }

  void forward(const Views& in, const Views& out) const {
    kernels::rows(NormalizeSum{{DropoutFormula(p)}, {eps}}, in[0].shape, write(out[0]), write(out[1]), write(out[2]),
                  in[0], in[1], in[2], in[3], random_rows(at, as_column(in[4])));
  }

  Tensors backward(autograd::Grads& g) const {
    const Tensor x = g.in(0), residual = g.in(1), gamma = g.in(2), mean = g.extra(0), rstd = g.extra(1);
    const Tensor places = g.has(4) ? g.in(4) : Tensor();
    const Tensor dx = empty_like(x), dresidual = empty_like(x);
    const Tensor dgamma = empty(gamma.shape(), gamma.dtype(), x.device());
    const Tensor dbeta = empty(gamma.shape(), gamma.dtype(), x.device());
    kernels::rows(NormalizeSumGrad{{DropoutFormula(p)}}, x.shape(), write(dx.view()), write(dresidual.view()),
                  sum_rows_into(dgamma.view()), sum_rows_into(dbeta.view()), g.dy().view(), x.view(), residual.view(),
                  mean.view(), rstd.view(), gamma.view(), random_rows(at, places ? as_column(places.view()) : View{}));
    Tensors all{dx, dresidual, dgamma, dbeta, {}};
    for (int i = 0; i < 4; ++i) {
      if (!g.needs_grad(i)) all[i] = Tensor();
    }
    return all;
  }

  static Samples<DropoutAddLayerNorm> samples() {
    const RngCoordinates at{7, rng_stream::dropout, 3, 1, 2};
    const auto norm = [](const Shape& shape, Arg places = absent()) {
      return std::vector<Arg>{arg(shape), arg(shape), arg({shape.back()}), arg({shape.back()}), std::move(places)};
    };
    std::vector<Arg> narrow = norm({2, 4}), other = norm({2, 4}), short_gamma = norm({2, 4});
    other[1] = arg({2, 5});
    short_gamma[2] = arg({3});
    return {{{0.0, 1e-5, at}, norm({3, 8})},
            {{0.3, 1e-5, at}, norm({2, 3, 7})},
            {{0.5, 1e-5, at}, norm({3, 9}, indices({3}, {4, 0, 11}))},
            {{0.1, 1e-12, at}, norm({5, 130})},
            {{0.1, 1e-5, at}, norm({150, 3})},  // more rows than are summed together
            {{0.1, 1e-5, at}, norm({2, 600})},
            {{1.0, 1e-5, at}, norm({2, 5})},
            {{0.2, 1e-5, at}, norm({33})},
            {{0.2, 1e-5, at}, norm({0, 4})},
            {{1.5, 1e-5, at}, narrow, "p = 1.5 is not in [0, 1]"},
            {{0.5, 1e-5, at}, other, "input 'residual' has shape [2, 5], expected [2, 4]"},
            {{0.5, 1e-5, at}, short_gamma, "input 'gamma' has shape [3], expected [4]"},
            {{0.5, 1e-5, at}, norm({2, 4}, indices({1}, {0})), "'places' has shape [1], expected [2]"}};
  }

  Arrays oracle(const Arrays& in) const {
    Array y = in[0];
    const size_t n = static_cast<size_t>(y.shape.back());
    for (size_t row = 0; (row + 1) * n <= y.values.size(); ++row) {
      double* z = y.values.data() + row * n;
      const size_t drawn = in[4].values.empty() ? row : static_cast<size_t>(in[4].values[row]);
      for (size_t i = 0; i < n; ++i) z[i] = in[1].values[row * n + i] + drop_exactly(z[i], p, at, drawn * n + i);
      normalize_exactly(z, in[2], in[3], eps);
    }
    return {y};
  }
};
const Register<DropoutAddLayerNorm> dropout_add_layer_norm_row;

}  // namespace

Tensor dropout_add_layer_norm(const Tensor& x, const Tensor& residual, const Tensor& gamma, const Tensor& beta,
                              double p, double eps, const Tensor& places) {
  // add promotes where the dtypes differ, one pass cannot.
  if (!autograd::may_fuse<DropoutAddLayerNorm>() || x.dtype() != residual.dtype()) {
    return layer_norm(add(dropout(x, p, places), residual), gamma, beta, eps);
  }
  return autograd::apply(DropoutAddLayerNorm{p, eps, next_draw()}, {x, residual, gamma, beta, places})[0];
}

}  // namespace mixtape::ops
