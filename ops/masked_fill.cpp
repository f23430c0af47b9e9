#include "autograd/call.h"
#include "ops/broadcast.h"
#include "ops/coordinates.h"
#include "ops/ops.h"
#include "ops/scalar.h"

namespace mixtape::ops {
namespace {

struct Fill {
  double value;
  template <class T>
  MIXTAPE_HD T operator()(T x, T mask) const {
    return maths::select(mask != T(0), static_cast<T>(value), x);
  }
};

struct MaskedFill {
  double value = 0;

  static constexpr OpInfo info{.name = "masked_fill",
                               .precision = Rule::widest,  // values pass unchanged
                               .inputs = {Input{"x"}, Input{"mask", Role::mask}},
                               .saves = saves_inputs(1),
                               .twice = true,
                               .doc = "x with a number put where the mask is true; the two broadcast"};

  Metas infer(const Infer& in) const {
    report_lost_scalar(info.name, "value", value, in.out());
    return {{.shape = in.broadcast(0, 1), .dtype = in.out()}};
  }

  void forward(const Views& in, const Views& out) const { kernels::map(Fill{value}, out[0], in[0], in[1]); }

  Tensors backward(autograd::Grads& g) const {  // by selection: an infinite dy under the mask stays out
    const Tensor mask = g.in(1);
    if (g.create_graph()) return {sum_to(masked_fill(g.dy(), mask, 0), g.meta(0).shape), Tensor()};
    return {reduced_gradient(g, 0, Fill{0}, g.dy(), mask), Tensor()};
  }

  static Arg pattern(const Shape& shape) {
    std::vector<double> values(static_cast<size_t>(shape.numel()));
    for (size_t i = 0; i < values.size(); ++i) values[i] = i * 3 % 7 < 3;
    Arg where = mask(shape, std::move(values));
    where.strided = true;
    return where;
  }
  static Samples<MaskedFill> samples() {
    return {{{1}, {arg({}), pattern({})}},
            {{-2}, {arg({7}), pattern({7})}},
            {{0}, {arg({3, 5}), pattern({5})}},
            {{0.5}, {arg({5}), pattern({3, 5})}},
            {{3}, {arg({2, 3, 4}), pattern({3, 1})}},
            {{1}, {arg({2, 1}), pattern({1, 4})}},
            {{1}, {arg({0, 3}), pattern({3})}},
            {{-1}, {arg({1031}), pattern({1031})}},
            {{-1}, {arg({3, 131}), pattern({131})}},
            {{-std::numeric_limits<double>::infinity()}, {arg({4}), pattern({4})}},
            {{0}, {arg({2, 3}), pattern({2})}, "shapes [2, 3] and [2] of 'x' and 'mask' do not broadcast"},
            {{0}, {arg({3}), arg({3})}, "'mask' is a mask and must be bool, got f32"}};
  }

  Arrays oracle(const Arrays& in) const {
    Array y;
    broadcast_shapes(in[0].shape, in[1].shape, y.shape);
    y = broadcast_array(in[0], y.shape);
    const Array m = broadcast_array(in[1], y.shape);
    for (size_t i = 0; i < y.values.size(); ++i) {
      if (m.values[i] != 0) y.values[i] = value;
    }
    return {y};
  }
};
const Register<MaskedFill> masked_fill_row;

}  // namespace

Tensor masked_fill(const Tensor& x, const Tensor& mask, double value) {
  return autograd::apply(MaskedFill{value}, {x, mask})[0];
}

}  // namespace mixtape::ops
