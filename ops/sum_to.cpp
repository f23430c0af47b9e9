#include "autograd/backward.h"
#include "autograd/call.h"
#include "core/kernels/loops.h"
#include "ops/coordinates.h"
#include "ops/ops.h"

namespace mixtape::ops {
namespace {

struct SumTo {
  Shape shape;

  static constexpr OpInfo info{.name = "sum_to",
                               .precision = Rule::full,  // a sum, as `sum`
                               .inputs = {Input{"x"}},
                               .wide_dy = true,
                               .twice = true,
                               .doc =
                                   "x summed down to a shape that broadcasts to x's: what the gradient of a "
                                   "broadcast input needs"};

  Metas infer(const Infer& in) const {
    Shape common;
    if (!broadcast_shapes(shape, in.shape(0), common) || !(common == in.shape(0))) {
      in.fail(message(shape.str(), " does not broadcast to ", in.shape(0).str()));
    }
    return {{.shape = shape, .dtype = in.out()}};
  }
  void forward(const Views& in, const Views& out) const {
    kernels::fold(kernels::Identity{}, in[0].shape, out[0], in[0]);
  }
  Tensors backward(autograd::Grads& g) const { return {expand(g.dy(), g.meta(0).shape)}; }

  static Samples<SumTo> samples() {
    return {{{{3}}, {arg({4, 3})}},
            {{{3, 1}}, {arg({2, 3, 5})}},
            {{{3, 5}}, {arg({3, 5})}},
            {{{}}, {arg({2, 7})}},
            {{{1, 1}}, {arg({3, 2})}},
            {{{3}}, {arg({0, 3})}},
            {{{1031}}, {arg({3, 1031})}},
            {{{5, 1}}, {arg({5, 131})}},
            {{{2, 1, 3, 1}}, {arg({2, 4, 3, 5})}},
            {{{2}}, {arg({4, 3})}, "[2] does not broadcast to [4, 3]"},
            {{{1, 4, 3}}, {arg({4, 3})}, "[1, 4, 3] does not broadcast to [4, 3]"}};
  }

  Arrays oracle(const Arrays& in) const {
    Array y{shape, std::vector<double>(static_cast<size_t>(shape.numel()))};
    for (size_t i = 0; i < in[0].values.size(); ++i) {
      Dims at = coordinates(in[0].shape, i);
      while (at.rank() > shape.rank()) at.erase(0);
      for (int axis = 0; axis < shape.rank(); ++axis) at[axis] %= shape[axis];
      y.values[place(shape, at)] += in[0].values[i];
    }
    return {y};
  }
};
const Register<SumTo> sum_to_row;

}  // namespace

Tensor sum_to(const Tensor& x, const Shape& shape) {
  return x.shape() == shape ? x : autograd::apply(SumTo{shape}, {x})[0];
}

}  // namespace mixtape::ops
