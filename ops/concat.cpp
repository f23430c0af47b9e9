#include "autograd/backward.h"
#include "autograd/call.h"
#include "core/kernels/basic.h"
#include "core/kernels/layout.h"
#include "ops/coordinates.h"
#include "ops/ops.h"

namespace mixtape::ops {
namespace {

struct Concat {
  int64_t axis = 0;

  static constexpr OpInfo info{.name = "concat",
                               .precision = Rule::widest,  // no piece loses digits to its neighbour's dtype
                               .inputs = {Input{"x"}},
                               .any_dtype = true,
                               .variadic = true,
                               .wide_dy = true,
                               .twice = true,
                               .doc = "tensors one after the other along one axis; the gradients are views"};

  Metas infer(const Infer& in) const {
    const int along = in.axis(0, axis);
    Shape whole = in.shape(0);
    for (int i = 1; i < in.count(); ++i) {
      Shape wanted = in.shape(0);
      const bool same_rank = in.shape(i).rank() == wanted.rank();
      if (same_rank) wanted[along] = in.shape(i)[along];
      if (!(in.shape(i) == wanted)) {
        in.fail(message("tensor ", i, " has shape ", in.shape(i).str(), ", which differs from ", in.shape(0).str(),
                        " beside axis ", along));
      }
      whole[along] += in.shape(i)[along];
    }
    return {{.shape = whole, .dtype = in.out()}};
  }

  void forward(const Views& in, const Views& out) const {
    const int along = normalize_axis(axis, out[0].shape.rank(), "concat");
    int64_t at = 0;
    for (const View& piece : in) {
      kernels::copy(piece, kernels::section(out[0], along, at, piece.shape[along]));
      at += piece.shape[along];
    }
  }

  Tensors backward(autograd::Grads& g) const {
    const int along = normalize_axis(axis, g.meta(0).shape.rank(), "concat");
    Tensors gradients;
    int64_t at = 0;
    for (int i = 0; i < g.count(); ++i) {
      const int64_t size = g.meta(i).shape[along];
      gradients.push_back(g.needs_grad(i) ? slice(g.dy(), along, at, at + size) : Tensor{});
      at += size;
    }
    return gradients;
  }

  static Samples<Concat> samples() {
    return {{{0}, {arg({2, 3}), arg({4, 3})}},
            {{-1}, {arg({2, 1, 5}), arg({2, 1, 1}), arg({2, 1, 3})}},
            {{1}, {arg({2, 3})}},
            {{0}, {arg({0, 3}), arg({2, 3})}},
            {{1}, {arg({0, 3}), arg({0, 2})}},
            {{0}, {arg({1000}), arg({31})}},
            {{1}, {arg({3, 130}), arg({3, 7})}},
            {{0}, {arg({1}), arg({2}), arg({3}), arg({4}), arg({5})}},
            {{0}, {indices({2}, {1, 2}), indices({1}, {3})}},
            {{0}, {arg({2, 3}), arg({2, 4})}, "tensor 1 has shape [2, 4], which differs from [2, 3] beside axis 0"},
            {{0}, {arg({2, 3}), arg({2})}, "tensor 1 has shape [2], which differs from [2, 3] beside axis 0"},
            {{0}, {arg({2}), indices({2}, {0, 1})}, "is i64, but 'x' is"},
            {{2}, {arg({2, 3}), arg({2, 3})}, "axis 2 is outside input 'x'"}};
  }

  Arrays oracle(const Arrays& in) const {
    const int along = normalize_axis(axis, in[0].shape.rank(), "concat");
    Array y{in[0].shape, {}};
    y.shape[along] = 0;
    for (const Array& piece : in) y.shape[along] += piece.shape[along];
    y.values.resize(static_cast<size_t>(y.shape.numel()));
    int64_t before = 0;
    for (const Array& piece : in) {
      for (size_t i = 0; i < piece.values.size(); ++i) {
        Dims at = coordinates(piece.shape, i);
        at[along] += before;
        y.values[place(y.shape, at)] = piece.values[i];
      }
      before += piece.shape[along];
    }
    return {y};
  }
};
const Register<Concat> concat_row;

}  // namespace

Tensor concat(const Tensors& pieces, int64_t axis) { return autograd::apply(Concat{axis}, pieces)[0]; }

}  // namespace mixtape::ops
