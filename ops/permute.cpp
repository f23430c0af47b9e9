#include "autograd/backward.h"
#include "autograd/call.h"
#include "ops/coordinates.h"
#include "ops/ops.h"

namespace mixtape::ops {
namespace {

struct Permute {
  Dims axes;  // axis i of the output is axis axes[i] of x; negative ones count from the back

  static constexpr OpInfo info{.name = "permute",
                               .precision = Rule::keep,  // no value changes
                               .inputs = {Input{"x"}},
                               .any_dtype = true,
                               .wide_dy = true,
                               .twice = true,
                               .doc = "x with its axes in another order: a view"};

  Metas infer(const Infer& in) const {
    const Geometry& x = in.geometry(0);
    const int rank = x.shape.rank();
    Meta meta{.shape = x.shape, .dtype = in.out(), .alias_of = 0, .strides = x.strides};
    uint32_t seen = 0;
    if (axes.rank() != rank) fail_axes(in);
    for (int i = 0; i < rank; ++i) {
      const int from = in.axis(0, axes[i]);
      seen |= 1u << from;
      meta.shape[i] = x.shape[from];
      meta.strides[i] = x.strides[from];
    }
    if (seen != (1u << rank) - 1u) fail_axes(in);
    return {meta};
  }
  void forward(const Views&, const Views&) const {}  // never called: the output is the input's bytes

  Tensors backward(autograd::Grads& g) const {
    Dims inverse = axes;
    for (int i = 0; i < axes.rank(); ++i) inverse[normalize_axis(axes[i], axes.rank(), "permute")] = i;
    return {permute(g.dy(), inverse)};
  }

  static Samples<Permute> samples() {
    return {{{{1, 2, 0}}, {arg({2, 3, 5})}},
            {{{0, 2, 1, 3}}, {arg({2, 3, 4, 7})}},
            {{{-1, 0, 1}}, {arg({4, 1, 3})}},
            {{{}}, {arg({})}},
            {{{1, 0}}, {arg({0, 3})}},
            {{{2, 0, 1}}, {arg({1, 1031, 2})}},
            {{{1, 0}}, {mask({1, 3}, {1, 0, 1})}},
            {{{0, 0}}, {arg({2, 3})}, "[0, 0] does not name each axis of [2, 3] once"},
            {{{0, 1, 2}}, {arg({2, 3})}, "[0, 1, 2] does not name each axis of [2, 3] once"},
            {{{0, 5}}, {arg({2, 3})}, "axis 5 is outside input 'x'"}};
  }

  Arrays oracle(const Arrays& in) const {
    const int rank = axes.rank();
    Shape shape = in[0].shape;
    for (int i = 0; i < rank; ++i) shape[i] = in[0].shape[(axes[i] + rank) % rank];
    return {rearranged(in[0], shape, [&](const Dims& at) {
      Dims source = at;
      for (int i = 0; i < rank; ++i) source[static_cast<int>((axes[i] + rank) % rank)] = at[i];
      return source;
    })};
  }

 private:
  [[noreturn]] void fail_axes(const Infer& in) const {
    in.fail(message(axes.str(), " does not name each axis of ", in.shape(0).str(), " once"));
  }
};
const Register<Permute> permute_row;

}  // namespace

Tensor permute(const Tensor& x, const Dims& axes) { return autograd::apply(Permute{axes}, {x})[0]; }

}  // namespace mixtape::ops
