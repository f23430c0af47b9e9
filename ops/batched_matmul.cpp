#include "autograd/backward.h"
#include "autograd/call.h"
#include "core/factory.h"
#include "core/kernels/gemm.h"
#include "core/kernels/layout.h"
#include "core/kernels/loops.h"
#include "ops/coordinates.h"
#include "ops/ops.h"

namespace mixtape::ops {
namespace {

using kernels::transposed;

Shape with_matrix(Shape batch, int64_t rows, int64_t columns) {
  batch.push_back(rows);
  batch.push_back(columns);
  return batch;
}
Shape batch_of(Shape shape) {
  shape.erase(shape.rank() - 1);
  shape.erase(shape.rank() - 1);
  return shape;
}

struct BatchedMatmul {
  double scale = 1.0;

  static constexpr OpInfo info{.name = "batched_matmul",
                               .precision = Rule::low,  // a matrix product: where 16 bits pay
                               .inputs = {Input{"a"}, Input{"b"}},
                               .saves = saves_inputs(0, 1),
                               .twice = true,
                               .doc =
                                   "scale·a·b for stacks of matrices whose batch axes broadcast; summed in f32, "
                                   "scaled before the one rounding"};

  Metas infer(const Infer& in) const {
    in.expect(in.shape(0).rank() >= 2, 0, "at least two axes");
    const Shape &a = in.shape(0), &b = in.shape(1);
    const int64_t m = a[a.rank() - 2], k = a.back();
    in.expect(b.rank() >= 2 && b[b.rank() - 2] == k, 1, message("[.., ", k, ", n], the last axis of a being ", k));
    Shape batch;
    if (!broadcast_shapes(batch_of(a), batch_of(b), batch)) {
      in.fail(message("the batch axes of ", a.str(), " and ", b.str(), " do not broadcast"));
    }
    return {{.shape = with_matrix(batch, m, b.back()), .dtype = in.out()}};
  }

  void forward(const Views& in, const Views& out) const { kernels::gemm(in[0], in[1], out[0], {.alpha = scale}); }

  Tensors backward(autograd::Grads& g) const {
    const Tensor a = g.in(0), b = g.in(1), dy = g.dy();
    Tensor da, db;
    if (g.create_graph()) {
      if (g.needs_grad(0)) da = sum_to(batched_matmul(dy, transpose(b, -1, -2), scale), a.shape());
      if (g.needs_grad(1)) db = sum_to(batched_matmul(transpose(a, -1, -2), dy, scale), b.shape());
    } else {
      if (g.needs_grad(0)) da = product(dy.view(), transposed(b.view()), a);
      if (g.needs_grad(1)) db = product(transposed(a.view()), dy.view(), b);
    }
    return {da, db};
  }

  static Samples<BatchedMatmul> samples() {
    return {{{}, {arg({2, 3, 4}), arg({2, 4, 5})}},
            {{0.125}, {arg({2, 3, 4, 5}), arg({2, 3, 5, 4})}},
            {{2.5}, {arg({3, 4}), arg({4, 5})}},
            {{}, {arg({2, 1, 3, 4}), arg({3, 4, 2})}},
            {{-0.5}, {arg({3, 4}), arg({2, 4, 1})}},
            {{}, {arg({1, 1, 1}), arg({1, 1, 1})}},
            {{}, {arg({0, 2, 3}), arg({0, 3, 4})}},
            {{}, {arg({2, 3, 0}), arg({2, 0, 4})}},
            {{0.125}, {arg({3, 9, 17}), arg({3, 17, 5})}},
            {{}, {arg({2, 3, 4}), arg({2, 3, 4})}, "input 'b' has shape [2, 3, 4], expected [.., 4, n]"},
            {{}, {arg({2, 3, 4}), arg({3, 4, 5})}, "the batch axes of [2, 3, 4] and [3, 4, 5] do not broadcast"},
            {{}, {arg({4}), arg({4, 5})}, "input 'a' has shape [4], expected at least two axes"}};
  }

  Arrays oracle(const Arrays& in) const {
    const Shape &a = in[0].shape, &b = in[1].shape;
    Shape batch;
    broadcast_shapes(batch_of(a), batch_of(b), batch);
    Array y{with_matrix(batch, a[a.rank() - 2], b.back()), {}};
    for (size_t i = 0; i < static_cast<size_t>(y.shape.numel()); ++i) {
      const Dims at = coordinates(y.shape, i);
      double sum = 0;
      for (int64_t k = 0; k < a.back(); ++k) {
        sum += element(in[0], at, at[at.rank() - 2], k) * element(in[1], at, k, at.back());
      }
      y.values.push_back(scale * sum);
    }
    return {y};
  }

 private:
  // scale·left·right as the gradient of `x`: where a batch axis of x was broadcast, summed over it before the rounding.
  Tensor product(const View& left, const View& right, const Tensor& x) const {
    Shape batch;
    broadcast_shapes(batch_of(left.shape), batch_of(right.shape), batch);
    const Shape full = with_matrix(batch, left.shape[left.shape.rank() - 2], right.shape.back());
    Tensor dx = empty_like(x);
    if (full == x.shape()) {
      kernels::gemm(left, right, dx.view(), {.alpha = scale});
    } else {
      const Tensor all = empty(full, wide(x.dtype()), x.device());
      kernels::gemm(left, right, all.view(), {.alpha = scale});
      kernels::fold(kernels::Identity{}, full, dx.view(), all.view());
    }
    return dx;
  }

  static double element(const Array& x, Dims at, int64_t row, int64_t column) {
    while (at.rank() > x.shape.rank()) at.erase(0);
    for (int axis = 0; axis < at.rank() - 2; ++axis) at[axis] %= x.shape[axis];
    at[at.rank() - 2] = row;
    at[at.rank() - 1] = column;
    return x.values[place(x.shape, at)];
  }
};
const Register<BatchedMatmul> batched_matmul_row;

}  // namespace

Tensor batched_matmul(const Tensor& a, const Tensor& b, double scale) {
  return autograd::apply(BatchedMatmul{scale}, {a, b})[0];
}

}  // namespace mixtape::ops
