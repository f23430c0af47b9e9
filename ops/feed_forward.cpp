#include <cmath>

#include "autograd/backward.h"
#include "autograd/call.h"
#include "core/factory.h"
#include "core/kernels/gemm.h"
#include "core/kernels/loops.h"
#include "ops/gelu_pass.h"
#include "ops/matrix.h"
#include "ops/ops.h"

namespace mixtape::ops {
namespace {

using kernels::as_rows;
using kernels::sum_rows_into;
using kernels::transposed;
using kernels::write;

struct FeedForward {
  static constexpr OpInfo info{
      .name = "feed_forward",
      .precision = Rule::low,  // two matrix products: where 16 bits pay
      .inputs = {Input{"x"}, Input{.name = "inner_weight", .wide_grad = true}, Input{"inner_bias", Role::parameter},
                 Input{.name = "outer_weight", .wide_grad = true}, Input{"outer_bias", Role::parameter}},
      .saves = saves_inputs(0, 1, 3),
      .absorbs = "linear gelu",
      .roundings = 4,  // what gelu reads and gives, and both gradients of these: as in the composed ops
      .doc = "linear(gelu(linear(x))); keeps what gelu reads and computes its value again on the way back"};

  Metas infer(const Infer& in) const {
    in.expect(in.shape(0).rank() >= 1, 0, "at least one axis");
    const int64_t width = in.shape(0).back();
    in.expect(in.shape(1).rank() == 2 && in.shape(1)[1] == width, 1,
              message("[inner, ", width, "], the last axis of x being ", width));
    const int64_t inner = in.shape(1)[0];
    in.expect(in.shape(2) == Shape{inner}, 2, message("[", inner, "], the rows of inner_weight"));
    in.expect(in.shape(3).rank() == 2 && in.shape(3)[1] == inner, 3,
              message("[out, ", inner, "], inner_weight having ", inner, " rows"));
    in.expect(in.shape(4) == Shape{in.shape(3)[0]}, 4, message("[", in.shape(3)[0], "], the rows of outer_weight"));
    Shape out = in.shape(0), between = in.shape(0);
    out[out.rank() - 1] = in.shape(3)[0];
    between[out.rank() - 1] = inner;
    return {{.shape = out, .dtype = in.out()}, {.shape = between, .dtype = in.out(), .saved_only = true}};
  }

  void forward(const Views& in, const Views& out) const {
    const auto matrix = [](const View& v) { return v.shape.rank() == 1 ? as_rows(v) : v; };
    Shape between = in[0].shape;
    between[between.rank() - 1] = in[1].shape[0];
    const Tensor h = empty(between, in[0].dtype, in[0].device);
    const View u = out[1] ? out[1] : h.view();  // not recording: gelu overwrites what it read
    kernels::gemm(matrix(in[0]), transposed(in[1]), matrix(u), {.bias = in[2]});
    kernels::map(GeluFormula{}, h.view(), u);
    kernels::gemm(matrix(h.view()), transposed(in[3]), matrix(out[0]), {.bias = in[4]});
  }

  Tensors backward(autograd::Grads& g) const {
    const Tensor x = packed_rows(g.in(0)), inner = g.in(1), outer = g.in(3), u = g.extra(0), dy = packed_rows(g.dy());
    const View dy_rows = as_rows(dy.view());
    Tensors d(5);
    const auto empty_like = [&](int i) {
      return empty(g.meta(i).shape, i == 0 ? x.dtype() : wide(x.dtype()), x.device());
    };
    if (g.needs_grad(4)) {
      d[4] = empty_like(4);
      kernels::fold(kernels::Identity{}, dy_rows.shape, d[4].view(), dy_rows);
    }
    const Tensor h = empty(u.shape(), u.dtype(), u.device()), du = empty(u.shape(), u.dtype(), u.device());
    const View u_rows = as_rows(u.view()), h_rows = as_rows(h.view()), du_rows = as_rows(du.view());
    const Tensor dbias = empty_like(2);
    kernels::gemm(dy_rows, outer.view(), du_rows);  // dh, which the pass overwrites with du
    kernels::rows(GeluPass{}, u_rows.shape, write(h_rows), write(du_rows), sum_rows_into(dbias.view()), u_rows,
                  du_rows);
    if (g.needs_grad(2)) d[2] = dbias;
    if (g.needs_grad(3)) {
      d[3] = empty_like(3);
      kernels::gemm(transposed(dy_rows), h_rows, d[3].view());
    }
    if (g.needs_grad(1)) {
      d[1] = empty_like(1);
      kernels::gemm(transposed(du_rows), as_rows(x.view()), d[1].view());
    }
    if (g.needs_grad(0)) {
      d[0] = empty_like(0);
      kernels::gemm(du_rows, inner.view(), as_rows(d[0].view()));
    }
    return d;
  }

  static Samples<FeedForward> samples() {
    const auto layer = [](const Shape& x, int64_t inner, int64_t out) {
      return std::vector<Arg>{arg(x), arg({inner, x.back()}), arg({inner}), arg({out, inner}), arg({out})};
    };
    std::vector<Arg> narrow = layer({2, 4}, 3, 5), odd = layer({2, 4}, 3, 5), bias = layer({2, 4}, 3, 5);
    narrow[1] = arg({3, 5});
    odd[3] = arg({5, 4});
    bias[2] = arg({4});
    return {{{}, layer({3, 4}, 5, 2)},
            {{}, layer({2, 3, 8}, 6, 8)},
            {{}, layer({7}, 3, 4)},
            {{}, layer({0, 4}, 5, 4)},
            {{}, layer({3, 1}, 1, 1)},
            {{}, layer({70, 4}, 4, 4)},  // more rows than are summed together
            {{}, layer({9, 17}, 33, 17)},
            {{}, narrow, "input 'inner_weight' has shape [3, 5], expected [inner, 4]"},
            {{}, odd, "input 'outer_weight' has shape [5, 4], expected [out, 3]"},
            {{}, bias, "input 'inner_bias' has shape [4], expected [3]"}};
  }

  Arrays oracle(const Arrays& in) const {
    const auto layer = [](const Array& x, const Array& weight, const Array& bias) {
      const size_t k = static_cast<size_t>(weight.shape[1]), n = static_cast<size_t>(weight.shape[0]);
      Array y{x.shape, std::vector<double>(x.values.size() / k * n)};
      y.shape[y.shape.rank() - 1] = weight.shape[0];
      for (size_t i = 0; i < y.values.size(); ++i) {
        y.values[i] = bias.values[i % n];
        for (size_t j = 0; j < k; ++j) y.values[i] += x.values[i / n * k + j] * weight.values[i % n * k + j];
      }
      return y;
    };
    Array h = layer(in[0], in[1], in[2]);
    for (double& value : h.values) value *= 0.5 * std::erfc(-value / std::sqrt(2.0));
    return {layer(h, in[3], in[4])};
  }
};
const Register<FeedForward> feed_forward_row;

}  // namespace

Tensor feed_forward(const Tensor& x, const Tensor& inner_weight, const Tensor& inner_bias, const Tensor& outer_weight,
                    const Tensor& outer_bias) {
  if (!autograd::may_fuse<FeedForward>()) {
    return linear(gelu(linear(x, inner_weight, inner_bias)), outer_weight, outer_bias);
  }
  return autograd::apply(FeedForward{}, {x, inner_weight, inner_bias, outer_weight, outer_bias})[0];
}

}  // namespace mixtape::ops
