#include "autograd/cast.h"

#include "autograd/backward.h"
#include "autograd/call.h"
#include "core/factory.h"
#include "core/kernels/basic.h"
#include "core/parameter.h"

namespace mixtape::autograd {
namespace {

struct Cast {
  DType to = DType::f32;

  static constexpr OpInfo info{
      .name = "cast",
      .precision = Rule::keep,  // it is what the other rules are made of
      .inputs = {Input{"x"}},
      .any_dtype = true,
      .wide_dy = true,  // the way back ends in the source's dtype: a no-op when already there
      .twice = true,
      .any_device = true,
      .doc = "x in another dtype, rounded once to nearest even; a parameter's 16-bit cast aliases its shadow"};

  Metas infer(const Infer& in) const {
    Meta meta{.shape = in.shape(0), .dtype = to};
    meta.shadow = in.dtype(0) == DType::f32 && is_low(to) && in.tensor(0).is_leaf() && in.tensor(0).leaf().keeps_shadow;
    return {meta};
  }
  void forward(const Views& in, const Views& out) const { kernels::copy(in[0], out[0]); }
  Tensors backward(Grads& g) const {
    const DType source = g.meta(0).dtype;
    if (g.dy().dtype() == source) return {g.dy()};
    return {g.create_graph() ? cast(g.dy(), source) : copy_of(g.dy(), source)};
  }
  static Samples<Cast> samples() {
    return {{{DType::bf16}, {arg({3, 5})}},
            {{DType::f16}, {arg({7})}},
            {{DType::f32}, {arg({2, 0, 3})}},
            {{DType::f32}, {arg({})}},
            {{DType::f64}, {arg({1031})}}};
  }
  Arrays oracle(const Arrays& in) const { return {in[0]}; }
};
const Register<Cast> cast_row;

// Internal to stage 1, not a row.
struct ParameterThrough {
  DType low = DType::bf16;

  static constexpr OpInfo info{.name = "cast",
                               .precision = Rule::keep,
                               .inputs = {Input{.name = "x", .wide_grad = true}},
                               .twice = true,
                               .any_device = true};
  Metas infer(const Infer& in) const { return {{.shape = in.shape(0), .dtype = DType::f32}}; }
  void forward(const Views& in, const Views& out) const {
    if (is_low(in[0].dtype)) return kernels::copy(in[0], out[0]);
    const Tensor rounded = empty(in[0].shape, low, in[0].device);
    kernels::copy(in[0], rounded.view());
    kernels::copy(rounded.view(), out[0]);
  }
  Tensors backward(Grads& g) const { return {g.dy()}; }
  static Samples<ParameterThrough> samples() { return {}; }
  Arrays oracle(const Arrays& in) const { return in; }
};

// Internal to the sweep, not a row: users add with ops::add.
struct Accumulate {
  static constexpr OpInfo info{.name = "accumulate",
                               .precision = Rule::widest,
                               .inputs = {Input{"a"}, Input{"b"}},
                               .twice = true,
                               .any_device = true};
  Metas infer(const Infer& in) const { return {{.shape = in.shape(0), .dtype = in.out()}}; }
  void forward(const Views& in, const Views& out) const { kernels::add_scaled(in[0], 1.0, in[1], 1.0, out[0]); }
  Tensors backward(Grads& g) const { return {g.dy(), g.dy()}; }
  static Samples<Accumulate> samples() { return {}; }
  Arrays oracle(const Arrays& in) const { return in; }
};

}  // namespace

Tensor cast(const Tensor& x, DType dtype) {
  if (x.dtype() == dtype) return x;
  return apply(Cast{dtype}, {x})[0];
}

Tensor parameter_through(const Tensor& parameter, DType low) { return apply(ParameterThrough{low}, {parameter})[0]; }

Tensor accumulate(const Tensor& a, const Tensor& b) { return apply(Accumulate{}, {a, b})[0]; }

bool is_cast(const OpSchema& op) { return &op == &schema_of<Cast>(); }

}  // namespace mixtape::autograd
