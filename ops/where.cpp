#include "ops/broadcast.h"

#include "autograd/call.h"
#include "ops/coordinates.h"
#include "ops/ops.h"

namespace mixtape::ops {
namespace {

struct Pick {
  template <class T>
  MIXTAPE_HD T operator()(T condition, T a, T b) const {
    return maths::select(condition != T(0), a, b);
  }
};
// By selection, not by a product: an infinite dy of the other branch stays out.
struct PickTrue {
  template <class T>
  MIXTAPE_HD T operator()(T dy, T condition) const {
    return maths::select(condition != T(0), dy, T(0));
  }
};
struct PickFalse {
  template <class T>
  MIXTAPE_HD T operator()(T dy, T condition) const {
    return maths::select(condition != T(0), T(0), dy);
  }
};

struct Where {
  static constexpr OpInfo info{.name = "where",
                               .precision = Rule::widest,  // values pass unchanged
                               .inputs = {Input{"condition", Role::mask}, Input{"a"}, Input{"b"}},
                               .saves = saves_inputs(0),
                               .twice = true,
                               .doc = "a where the condition is true, else b; the three broadcast"};

  Metas infer(const Infer& in) const {
    const Shape values = in.broadcast(1, 2);
    Shape shape;
    in.expect(broadcast_shapes(in.shape(0), values, shape), 0,
              message("a shape that broadcasts with ", values.str(), ", that of a and b"));
    return {{.shape = shape, .dtype = in.out()}};
  }

  void forward(const Views& in, const Views& out) const { kernels::map(Pick{}, out[0], in[0], in[1], in[2]); }

  Tensors backward(autograd::Grads& g) const {
    const Tensor condition = g.in(0), dy = g.dy();
    Tensor da, db;
    if (g.create_graph()) {
      const Tensor none = full({}, 0, dy.dtype(), dy.device());
      if (g.needs_grad(1)) da = sum_to(where(condition, dy, none), g.meta(1).shape);
      if (g.needs_grad(2)) db = sum_to(where(condition, none, dy), g.meta(2).shape);
    } else {
      if (g.needs_grad(1)) da = reduced_gradient(g, 1, PickTrue{}, dy, condition);
      if (g.needs_grad(2)) db = reduced_gradient(g, 2, PickFalse{}, dy, condition);
    }
    return {Tensor(), da, db};
  }

  static Arg pattern(const Shape& shape) {
    std::vector<double> values(static_cast<size_t>(shape.numel()));
    for (size_t i = 0; i < values.size(); ++i) values[i] = i * 5 % 7 < 3;
    Arg condition = mask(shape, std::move(values));
    condition.strided = true;
    return condition;
  }
  static Samples<Where> samples() {
    return {{{}, {pattern({}), arg({}), arg({})}},
            {{}, {pattern({7}), arg({7}), arg({7})}},
            {{}, {pattern({3, 5}), arg({5}), arg({3, 1})}},
            {{}, {pattern({3, 1}), arg({3, 4}), arg({})}},
            {{}, {pattern({2, 1, 4}), arg({3, 1}), arg({1})}},
            {{}, {pattern({4}), arg({}), arg({2, 4})}},
            {{}, {pattern({0}), arg({0}), arg({1})}},
            {{}, {pattern({1031}), arg({1031}), arg({1031})}},
            {{}, {pattern({3, 131}), arg({131}), arg({3, 131})}},
            {{}, {pattern({3}), arg({2, 4}), arg({4})}, "input 'condition' has shape [3], expected a shape that"},
            {{}, {pattern({3}), arg({2}), arg({3})}, "shapes [2] and [3] of 'a' and 'b' do not broadcast"},
            {{}, {arg({3}), arg({3}), arg({3})}, "'condition' is a mask and must be bool, got f32"}};
  }

  Arrays oracle(const Arrays& in) const {
    Array y;
    broadcast_shapes(in[1].shape, in[2].shape, y.shape);
    broadcast_shapes(in[0].shape, y.shape, y.shape);
    const Array m = broadcast_array(in[0], y.shape), a = broadcast_array(in[1], y.shape),
                b = broadcast_array(in[2], y.shape);
    for (size_t i = 0; i < m.values.size(); ++i)
      y.values.push_back(m.values[i] * a.values[i] + (1 - m.values[i]) * b.values[i]);
    return {y};
  }
};
const Register<Where> where_row;

}  // namespace

Tensor where(const Tensor& condition, const Tensor& a, const Tensor& b) {
  return autograd::apply(Where{}, {condition, a, b})[0];
}

}  // namespace mixtape::ops
