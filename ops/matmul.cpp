#include "autograd/backward.h"
#include "autograd/call.h"
#include "autograd/cast.h"
#include "core/kernels/gemm.h"
#include "ops/matrix.h"
#include "ops/ops.h"

namespace mixtape::ops {
namespace {

using kernels::as_rows;
using kernels::transposed;

struct Matmul {
  static constexpr OpInfo info{
      .name = "matmul",
      .precision = Rule::low,  // a matrix product: where 16 bits pay
      .inputs = {Input{"a"}, Input{.name = "b", .wide_grad = true}},
      .saves = saves_inputs(0, 1),
      .twice = true,
      .doc = "a·b for a matrix b; the leading axes of a are rows; summed in f32, rounded once"};

  Metas infer(const Infer& in) const {
    in.expect(in.shape(0).rank() >= 2, 0, "at least two axes");
    in.expect(in.shape(1).rank() == 2 && in.shape(1)[0] == in.shape(0).back(), 1,
              message("[", in.shape(0).back(), ", n], the last axis of a being ", in.shape(0).back()));
    Shape out = in.shape(0);
    out[out.rank() - 1] = in.shape(1)[1];
    return {{.shape = out, .dtype = in.out()}};
  }

  void forward(const Views& in, const Views& out) const { kernels::gemm(in[0], in[1], out[0]); }

  Tensors backward(autograd::Grads& g) const {
    if (g.create_graph()) return recorded(g);
    const Tensor a = packed_rows(g.in(0)), b = g.in(1), dy = packed_rows(g.dy());
    Tensor da, db;
    if (g.needs_grad(0)) {
      da = empty_like(a);
      kernels::gemm(as_rows(dy.view()), transposed(b.view()), as_rows(da.view()));
    }
    if (g.needs_grad(1)) {  // b is a weight as a rule: its gradient leaves the product in f32
      db = empty(b.shape(), wide(b.dtype()), b.device());
      kernels::gemm(transposed(as_rows(a.view())), as_rows(dy.view()), db.view());
    }
    return {da, db};
  }

  static Samples<Matmul> samples() {
    return {{{}, {arg({3, 4}), arg({4, 5})}},
            {{}, {arg({2, 3, 5}), arg({5, 4})}},
            {{}, {arg({2, 1, 3, 4}), arg({4, 1})}},
            {{}, {arg({1, 1}), arg({1, 1})}},
            {{}, {arg({0, 3}), arg({3, 2})}},
            {{}, {arg({3, 0}), arg({0, 2})}},
            {{}, {arg({17, 33}), arg({33, 9})}},
            {{}, {arg({2, 4}), arg({3, 5})}, "input 'b' has shape [3, 5], expected [4, n]"},
            {{}, {arg({2, 4}), arg({2, 4, 5})}, "input 'b' has shape [2, 4, 5], expected [4, n]"},
            {{}, {arg({4}), arg({4, 5})}, "input 'a' has shape [4], expected at least two axes"}};
  }

  Arrays oracle(const Arrays& in) const {
    const size_t k = static_cast<size_t>(in[1].shape[0]), n = static_cast<size_t>(in[1].shape[1]);
    Array y{in[0].shape, {}};
    y.shape[y.shape.rank() - 1] = in[1].shape[1];
    y.values.resize(static_cast<size_t>(y.shape.numel()));
    for (size_t i = 0; i < y.values.size(); ++i) {
      for (size_t j = 0; j < k; ++j) y.values[i] += in[0].values[i / n * k + j] * in[1].values[j * n + i % n];
    }
    return {y};
  }

 private:
  Tensors recorded(autograd::Grads& g) const {
    const Tensor a = g.in(0), b = g.in(1), dy = g.dy();
    Tensor da, db;
    if (g.needs_grad(0)) da = matmul(dy, transpose(b, 0, 1));
    if (g.needs_grad(1)) {
      const DType dtype = wide(b.dtype());  // as in the plain sweep, db is not rounded
      db = matmul(transpose(rows_of(autograd::cast(a, dtype)), 0, 1), rows_of(autograd::cast(dy, dtype)));
    }
    return {da, db};
  }
};
const Register<Matmul> matmul_row;

}  // namespace

Tensor matmul(const Tensor& a, const Tensor& b) { return autograd::apply(Matmul{}, {a, b})[0]; }

}  // namespace mixtape::ops
