#include "autograd/backward.h"
#include "autograd/call.h"
#include "autograd/cast.h"
#include "core/factory.h"
#include "core/kernels/gemm.h"
#include "core/kernels/loops.h"
#include "ops/matrix.h"
#include "ops/ops.h"

namespace mixtape::ops {
namespace {

using kernels::as_rows;
using kernels::transposed;

struct Linear {
  static constexpr OpInfo info{.name = "linear",
                               .precision = Rule::low,  // a matrix product: where 16 bits pay
                               .inputs = {Input{"x"}, Input{.name = "weight", .wide_grad = true},
                                          Input{.name = "bias", .role = Role::parameter, .optional = true}},
                               .saves = saves_inputs(0, 1),
                               .twice = true,
                               .doc = "x·Wᵀ + b, W [out, in]; the bias stays f32 and is added before the one rounding"};

  Metas infer(const Infer& in) const {
    in.expect(in.shape(0).rank() >= 1, 0, "at least one axis");
    in.expect(in.shape(1).rank() == 2 && in.shape(1)[1] == in.shape(0).back(), 1,
              message("[out, ", in.shape(0).back(), "], the last axis of x being ", in.shape(0).back()));
    const int64_t features = in.shape(1)[0];
    if (in.has(2)) in.expect(in.shape(2) == Shape{features}, 2, message("[", features, "], the rows of weight"));
    Shape out = in.shape(0);
    out[out.rank() - 1] = features;
    return {{.shape = out, .dtype = in.out()}};
  }

  void forward(const Views& in, const Views& out) const {
    const auto matrix = [](const View& v) { return v.shape.rank() == 1 ? as_rows(v) : v; };
    kernels::gemm(matrix(in[0]), transposed(in[1]), matrix(out[0]), {.bias = in[2]});
  }

  Tensors backward(autograd::Grads& g) const {
    if (g.create_graph()) return recorded(g);
    const Tensor x = packed_rows(g.in(0)), weight = g.in(1), dy = packed_rows(g.dy());
    const View dy_rows = as_rows(dy.view());
    Tensor dx, dw, db;
    if (g.needs_grad(0)) {
      dx = empty_like(x);
      kernels::gemm(dy_rows, weight.view(), as_rows(dx.view()));
    }
    if (g.needs_grad(1)) {  // out of the product in f32: no rounding, no extra pass
      dw = empty(weight.shape(), wide(x.dtype()), x.device());
      kernels::gemm(transposed(dy_rows), as_rows(x.view()), dw.view());
    }
    if (g.needs_grad(2)) {
      db = empty(g.meta(2).shape, g.meta(2).dtype, x.device());
      kernels::fold(kernels::Identity{}, dy_rows.shape, db.view(), dy_rows);
    }
    return {dx, dw, db};
  }

  static Samples<Linear> samples() {
    return {{{}, {arg({3, 4}), arg({5, 4}), arg({5})}},
            {{}, {arg({2, 3, 8}), arg({6, 8}), absent()}},
            {{}, {arg({7}), arg({3, 7}), arg({3})}},
            {{}, {arg({0, 4}), arg({5, 4}), arg({5})}},
            {{}, {arg({3, 1}), arg({1, 1}), arg({1})}},
            {{}, {arg({4, 6}), arg({6, 6}), arg({6})}},  // where a flipped transpose has a fitting shape
            {{}, {arg({33, 65}), arg({17, 65}), arg({17})}},
            {{}, {arg({2, 4}), arg({5, 3}), arg({5})}, "input 'weight' has shape [5, 3], expected [out, 4]"},
            {{}, {arg({2, 4}), arg({5, 4}), arg({4})}, "input 'bias' has shape [4], expected [5]"}};
  }

  Arrays oracle(const Arrays& in) const {
    const size_t k = static_cast<size_t>(in[1].shape[1]), n = static_cast<size_t>(in[1].shape[0]);
    const size_t m = k ? in[0].values.size() / k : 0;
    Array y{in[0].shape, std::vector<double>(m * n)};
    y.shape[y.shape.rank() - 1] = static_cast<int64_t>(n);
    for (size_t i = 0; i < m * n; ++i) {
      double sum = in.size() > 2 && !in[2].values.empty() ? in[2].values[i % n] : 0.0;
      for (size_t j = 0; j < k; ++j) sum += in[0].values[i / n * k + j] * in[1].values[i % n * k + j];
      y.values[i] = sum;
    }
    return {y};
  }

 private:
  Tensors recorded(autograd::Grads& g) const {
    const Tensor x = g.in(0), weight = g.in(1), dy = rows_of(g.dy());
    const Tensor wide_dy = autograd::cast(dy, wide(x.dtype()));  // as in the plain sweep, dw and db are not rounded
    Tensor dx, dw, db;
    if (g.needs_grad(0)) dx = reshape(matmul(dy, weight), x.shape());
    if (g.needs_grad(1)) dw = matmul(transpose(wide_dy, 0, 1), rows_of(autograd::cast(x, wide_dy.dtype())));
    if (g.needs_grad(2)) db = sum_to(wide_dy, g.meta(2).shape);
    return {dx, dw, db};
  }
};
const Register<Linear> linear_row;

}  // namespace

Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias) {
  return autograd::apply(Linear{}, {x, weight, bias})[0];
}

}  // namespace mixtape::ops
