#include "core/kernels/gather.h"
#include "autograd/backward.h"
#include "autograd/call.h"
#include "core/factory.h"
#include "ops/coordinates.h"
#include "ops/ops.h"

namespace mixtape::ops {
namespace {

struct Gather {
  int64_t axis = -1;

  static constexpr OpInfo info{.name = "gather",
                               .precision = Rule::keep,  // values pass; the gradient is summed in f32
                               .inputs = {Input{"x"}, Input{"index", Role::index}},
                               .saves = saves_inputs(1),
                               .any_dtype = true,
                               .wide_dy = true,
                               .doc = "for axis 1: y[i, j, k] = x[i, index[i, j, k], k]"};

  Metas infer(const Infer& in) const {
    const int along = in.axis(0, axis);
    bool fits = in.shape(1).rank() == in.shape(0).rank();
    for (int i = 0; fits && i < in.shape(0).rank(); ++i) fits = i == along || in.shape(1)[i] <= in.shape(0)[i];
    in.expect(fits, 1, message("the axes of x ", in.shape(0).str(), ", no larger beside axis ", along));
    return {{.shape = in.shape(1), .dtype = in.out()}};
  }

  void forward(const Views& in, const Views& out) const {
    const int along = normalize_axis(axis, in[0].shape.rank(), "gather");
    kernels::check_indices(in[1], in[0].shape[along], info.name);
    kernels::gather_elements(in[0], in[1], along, out[0]);
  }

  Tensors backward(autograd::Grads& g) const {
    const Tensor index = g.in(1), dx = empty(g.meta(0).shape, g.meta(0).dtype, index.device());
    kernels::sum_elements(g.dy().view(), index.view(), normalize_axis(axis, dx.rank(), "gather"), dx.view());
    return {dx, {}};
  }

  static Samples<Gather> samples() {
    return {{{1}, {arg({2, 5}), indices({2, 3}, {4, 0, 4, 1, 1, 2})}},
            {{0}, {arg({3, 4}), indices({2, 4}, {2, 0, 1, 1, 2, 2, 0, 1})}},
            {{1}, {arg({2, 3, 4}), indices({1, 2, 3}, {2, 0, 1, 2, 2, 0})}},
            {{-1}, {arg({2, 1, 7}), indices({2, 1, 1}, {6, 0})}},
            {{0}, {arg({131}), indices({5}, {130, 0, 7, 130, 130})}},
            {{1}, {arg({2, 3}), indices({2, 0}, {})}},
            {{1}, {arg({0, 3}), indices({0, 2}, {})}},
            {{0}, {indices({3}, {7, 8, 9}), indices({4}, {2, 0, 1, 1})}},
            {{1}, {arg({2, 3}), indices({2, 1}, {0, 3})}, "index 3 at [1, 0] is outside [0, 3)"},
            {{1}, {arg({2, 3}), indices({3, 1}, {0, 0, 0})}, "no larger beside axis 1"},
            {{1}, {arg({2, 3}), indices({2}, {0, 0})}, "input 'index' has shape [2], expected the axes of x [2, 3]"},
            {{2}, {arg({2, 3}), indices({2, 1}, {0, 0})}, "axis 2 is outside input 'x'"}};
  }

  Arrays oracle(const Arrays& in) const {
    const int along = normalize_axis(axis, in[0].shape.rank(), "gather");
    return {rearranged(in[0], in[1].shape, [&](const Dims& at) {
      Dims source = at;
      source[along] = static_cast<int64_t>(in[1].values[place(in[1].shape, at)]);
      return source;
    })};
  }
};
const Register<Gather> gather_row;

}  // namespace

Tensor gather(const Tensor& x, int64_t axis, const Tensor& index) {
  return autograd::apply(Gather{axis}, {x, index})[0];
}

}  // namespace mixtape::ops
