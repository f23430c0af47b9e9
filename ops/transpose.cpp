#include "autograd/backward.h"
#include "autograd/call.h"
#include "ops/coordinates.h"
#include "ops/ops.h"

namespace mixtape::ops {
namespace {

struct Transpose {
  int64_t first, second;  // axes; negative ones count from the back

  static constexpr OpInfo info{.name = "transpose",
                               .precision = Rule::keep,  // no value changes
                               .inputs = {Input{"x"}},
                               .any_dtype = true,
                               .wide_dy = true,
                               .twice = true,
                               .doc = "x with two axes exchanged: a view"};

  Metas infer(const Infer& in) const {
    Meta meta{.shape = in.shape(0), .dtype = in.out(), .alias_of = 0, .strides = in.geometry(0).strides};
    const int a = in.axis(0, first), b = in.axis(0, second);
    std::swap(meta.shape[a], meta.shape[b]);
    std::swap(meta.strides[a], meta.strides[b]);
    return {meta};
  }
  void forward(const Views&, const Views&) const {}  // never called: the output is the input's bytes
  Tensors backward(autograd::Grads& g) const { return {transpose(g.dy(), first, second)}; }

  static Samples<Transpose> samples() {
    return {{{0, 1}, {arg({3, 5})}},
            {{-1, -3}, {arg({2, 3, 4})}},
            {{1, 1}, {arg({2, 7})}},
            {{0, 2}, {arg({2, 0, 3})}},
            {{0, 1}, {arg({1031, 1})}},
            {{0, 1}, {indices({2, 3}, {1, 2, 3, 4, 5, 6})}},
            {{0, 2}, {arg({3, 5})}, "axis 2 is outside input 'x' of shape [3, 5]"}};
  }

  Arrays oracle(const Arrays& in) const {
    const int rank = in[0].shape.rank();
    const auto exchanged = [&](Dims at) {
      std::swap(at[normalize_axis(first, rank, "transpose")], at[normalize_axis(second, rank, "transpose")]);
      return at;
    };
    return {rearranged(in[0], exchanged(in[0].shape), exchanged)};
  }
};
const Register<Transpose> transpose_row;

}  // namespace

Tensor transpose(const Tensor& x, int64_t first, int64_t second) {
  return autograd::apply(Transpose{first, second}, {x})[0];
}

}  // namespace mixtape::ops
