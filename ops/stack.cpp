#include "autograd/backward.h"
#include "autograd/call.h"
#include "core/kernels/basic.h"
#include "core/kernels/layout.h"
#include "ops/coordinates.h"
#include "ops/ops.h"

namespace mixtape::ops {
namespace {

struct Stack {
  int64_t axis = 0;  // the new axis, counted in the output

  static constexpr OpInfo info{.name = "stack",
                               .precision = Rule::widest,  // as concat
                               .inputs = {Input{"x"}},
                               .any_dtype = true,
                               .variadic = true,
                               .wide_dy = true,
                               .twice = true,
                               .doc = "tensors of one shape along a new axis; the gradients are views"};

  Metas infer(const Infer& in) const {
    const int rank = in.shape(0).rank() + 1;
    if (axis < -rank || axis >= rank) in.fail(message("axis ", axis, " is outside a stack of ", in.shape(0).str()));
    for (int i = 1; i < in.count(); ++i) {
      if (in.shape(i) == in.shape(0)) continue;
      in.fail(message("tensor ", i, " has shape ", in.shape(i).str(), ", expected ", in.shape(0).str()));
    }
    Shape whole = in.shape(0);
    whole.insert(along(rank), in.count());
    return {{.shape = whole, .dtype = in.out()}};
  }

  void forward(const Views& in, const Views& out) const {
    const int at = along(out[0].shape.rank());
    for (int i = 0; i < in.size(); ++i) {
      View layer = kernels::section(out[0], at, i, 1);
      layer.shape.erase(at);
      layer.strides.erase(at);
      kernels::copy(in[i], layer);
    }
  }

  Tensors backward(autograd::Grads& g) const {
    const int at = along(g.dy().rank());
    Tensors gradients;
    for (int i = 0; i < g.count(); ++i) {
      gradients.push_back(g.needs_grad(i) ? squeeze(slice(g.dy(), at, i, i + 1), at) : Tensor{});
    }
    return gradients;
  }

  static Samples<Stack> samples() {
    return {{{0}, {arg({2, 3}), arg({2, 3})}},
            {{1}, {arg({2, 3}), arg({2, 3}), arg({2, 3})}},
            {{-1}, {arg({5}), arg({5})}},
            {{0}, {arg({}), arg({})}},
            {{0}, {arg({0, 2}), arg({0, 2})}},
            {{2}, {arg({1, 7})}},
            {{0}, {arg({1031}), arg({1031})}},
            {{0}, {mask({2}, {1, 0}), mask({2}, {0, 0})}},
            {{0}, {arg({2, 3}), arg({3, 2})}, "tensor 1 has shape [3, 2], expected [2, 3]"},
            {{3}, {arg({2, 3}), arg({2, 3})}, "axis 3 is outside a stack of [2, 3]"}};
  }

  Arrays oracle(const Arrays& in) const {
    const int at = along(in[0].shape.rank() + 1);
    Array y{in[0].shape, {}};
    y.shape.insert(at, static_cast<int64_t>(in.size()));
    for (size_t i = 0; i < static_cast<size_t>(y.shape.numel()); ++i) {
      Dims from = coordinates(y.shape, i);
      const size_t which = static_cast<size_t>(from[at]);
      from.erase(at);
      y.values.push_back(in[which].values[place(in[which].shape, from)]);
    }
    return {y};
  }

 private:
  int along(int rank) const { return normalize_axis(axis, rank, "stack"); }
};
const Register<Stack> stack_row;

}  // namespace

Tensor stack(const Tensors& layers, int64_t axis) { return autograd::apply(Stack{axis}, layers)[0]; }

}  // namespace mixtape::ops
