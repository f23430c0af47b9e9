#include "autograd/backward.h"
#include "autograd/call.h"
#include "ops/coordinates.h"
#include "ops/ops.h"

namespace mixtape::ops {
namespace {

struct Expand {
  Shape shape;

  static constexpr OpInfo info{.name = "expand",
                               .precision = Rule::keep,  // no value changes; the gradient is summed in f32
                               .inputs = {Input{"x"}},
                               .any_dtype = true,
                               .wide_dy = true,
                               .twice = true,
                               .doc = "x broadcast to a shape: a view that reads elements more than once"};

  Metas infer(const Infer& in) const {
    const Geometry& x = in.geometry(0);
    Shape common;
    if (!broadcast_shapes(x.shape, shape, common) || !(common == shape)) {
      in.fail(message(x.shape.str(), " does not broadcast to ", shape.str()));
    }
    return {
        {.shape = shape, .dtype = in.out(), .alias_of = 0, .strides = broadcast_strides(x.shape, x.strides, shape)}};
  }
  void forward(const Views&, const Views&) const {}  // never called: the output is the input's bytes
  Tensors backward(autograd::Grads& g) const { return {sum_to(g.dy(), g.meta(0).shape)}; }

  static Samples<Expand> samples() {
    return {{{{4, 3}}, {arg({3})}},
            {{{2, 3, 5}}, {arg({3, 1})}},
            {{{3, 5}}, {arg({3, 5})}},
            {{{2, 2}}, {arg({})}},
            {{{0, 4}}, {arg({1, 4})}},
            {{{3, 0}}, {arg({1, 0})}},
            {{{3, 1031}}, {arg({1031})}},
            {{{1031, 3}}, {arg({1031, 1})}},
            {{{2, 3}}, {indices({3}, {4, 5, 6})}},
            {{{2, 4}}, {arg({3})}, "[3] does not broadcast to [2, 4]"},
            {{{3}}, {arg({2, 3})}, "[2, 3] does not broadcast to [3]"}};
  }

  Arrays oracle(const Arrays& in) const {
    const Shape& from = in[0].shape;
    return {rearranged(in[0], shape, [&](Dims at) {
      while (at.rank() > from.rank()) at.erase(0);
      for (int axis = 0; axis < from.rank(); ++axis) at[axis] %= from[axis];
      return at;
    })};
  }
};
const Register<Expand> expand_row;

}  // namespace

Tensor expand(const Tensor& x, const Shape& shape) { return autograd::apply(Expand{shape}, {x})[0]; }

}  // namespace mixtape::ops
