#include "autograd/backward.h"
#include "autograd/call.h"
#include "core/factory.h"
#include "core/kernels/gather.h"
#include "core/kernels/layout.h"
#include "ops/coordinates.h"
#include "ops/ops.h"

namespace mixtape::ops {
namespace {

using kernels::axis_first;

struct IndexSelect {
  int64_t axis = 0;

  static constexpr OpInfo info{.name = "index_select",
                               .precision = Rule::keep,  // values pass; the gradient is summed in f32
                               .inputs = {Input{"x"}, Input{"index", Role::index}},
                               .saves = saves_inputs(1),
                               .any_dtype = true,
                               .wide_dy = true,
                               .doc = "the places of x along one axis that an index vector names, in its order"};

  Metas infer(const Infer& in) const {
    in.expect(in.shape(1).rank() == 1, 1, "one axis");
    Shape out = in.shape(0);
    out[in.axis(0, axis)] = in.shape(1)[0];
    return {{.shape = out, .dtype = in.out()}};
  }

  void forward(const Views& in, const Views& out) const {
    const int along = normalize_axis(axis, in[0].shape.rank(), "index_select");
    kernels::check_indices(in[1], in[0].shape[along], info.name);
    kernels::gather_rows(axis_first(in[0], along), in[1], axis_first(out[0], along));
  }

  Tensors backward(autograd::Grads& g) const {
    const Tensor index = g.in(1), dx = empty(g.meta(0).shape, g.meta(0).dtype, index.device());
    const int along = normalize_axis(axis, dx.rank(), "index_select");
    kernels::sum_rows(axis_first(g.dy().view(), along), index.view(), axis_first(dx.view(), along));
    return {dx, {}};
  }

  static Samples<IndexSelect> samples() {
    return {{{0}, {arg({5, 3}), indices({4}, {4, 0, 0, 2})}},
            {{1}, {arg({2, 4, 3}), indices({2}, {3, 1})}},
            {{-1}, {arg({3, 7}), indices({3}, {6, 6, 6})}},
            {{0}, {arg({9}), indices({3}, {8, 0, 8})}},
            {{0}, {arg({3, 2}), indices({0}, {})}},
            {{1}, {arg({0, 3}), indices({2}, {0, 1})}},
            {{0}, {arg({2, 601}), indices({3}, {1, 0, 1})}},
            {{0}, {indices({3}, {7, 8, 9}), indices({2}, {2, 0})}},
            {{1}, {arg({2, 3}), indices({2}, {0, 3})}, "index 3 at [1] is outside [0, 3)"},
            {{0}, {arg({2, 3}), indices({1, 1}, {0})}, "input 'index' has shape [1, 1], expected one axis"},
            {{2}, {arg({2, 3}), indices({1}, {0})}, "axis 2 is outside input 'x'"}};
  }

  Arrays oracle(const Arrays& in) const {
    const int along = normalize_axis(axis, in[0].shape.rank(), "index_select");
    Shape shape = in[0].shape;
    shape[along] = in[1].shape[0];
    return {rearranged(in[0], shape, [&](Dims at) {
      at[along] = static_cast<int64_t>(in[1].values[static_cast<size_t>(at[along])]);
      return at;
    })};
  }
};
const Register<IndexSelect> index_select_row;

}  // namespace

Tensor index_select(const Tensor& x, int64_t axis, const Tensor& index) {
  return autograd::apply(IndexSelect{axis}, {x, index})[0];
}

}  // namespace mixtape::ops
