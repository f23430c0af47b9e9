#include "autograd/backward.h"
#include "autograd/call.h"
#include "core/factory.h"
#include "ops/coordinates.h"
#include "ops/ops.h"

namespace mixtape::ops {
namespace {

struct Split {
  std::vector<int64_t> sizes;
  int64_t axis = 0;

  static constexpr OpInfo info{.name = "split",
                               .precision = Rule::widest,  // beside concat, whose way back it is
                               .inputs = {Input{"x"}},
                               .any_dtype = true,
                               .wide_dy = true,
                               .twice = true,
                               .doc =
                                   "x cut along one axis into pieces of the given sizes: views; the gradients of "
                                   "all pieces are written into one tensor"};

  Metas infer(const Infer& in) const {
    const Geometry& x = in.geometry(0);
    const int along = in.axis(0, axis);
    Metas pieces;
    int64_t at = 0;
    for (int64_t size : sizes) {
      if (size < 0) in.fail(message("a piece of size ", size));
      Meta meta{.shape = x.shape, .dtype = in.out(), .alias_of = 0, .strides = x.strides};
      meta.shape[along] = size;
      meta.offset = at * x.strides[along];
      pieces.push_back(meta);
      at += size;
    }
    if (sizes.empty() || at != x.shape[along]) {
      in.fail(message("pieces of together ", at, " do not fill axis ", along, " of ", x.shape.str()));
    }
    return pieces;
  }
  void forward(const Views&, const Views&) const {}  // never called: the outputs are the input's bytes

  Tensors backward(autograd::Grads& g) const {
    const Shape& whole = g.meta(0).shape;
    const int along = normalize_axis(axis, whole.rank(), "split");
    if (const Tensor all = g.create_graph() ? Tensor() : side_by_side(g, along)) return {all};
    DType dtype = g.meta(0).dtype;
    Device device;
    for (int i = 0; i < pieces(); ++i) {
      if (g.dy(i)) dtype = widest(dtype, g.dy(i).dtype()), device = g.dy(i).device();
    }
    Tensors dys;
    for (int i = 0; i < pieces(); ++i) {
      Shape piece = whole;
      piece[along] = sizes[static_cast<size_t>(i)];
      // An absent gradient is a single zero, read everywhere: nothing of the piece's size is filled for it.
      dys.push_back(g.dy(i) ? g.dy(i) : expand(full({}, 0.0, dtype, device), piece));
    }
    return {concat(dys, along)};
  }

  static Samples<Split> samples() {
    return {{{{2, 3}, 0}, {arg({5, 3})}},
            {{{4, 4, 4}, -1}, {arg({2, 3, 12})}},
            {{{1, 0, 2}, 1}, {arg({2, 3, 5})}},
            {{{7}, 0}, {arg({7})}},
            {{{0, 0}, 1}, {arg({3, 0})}},
            {{{1000, 31}, 0}, {arg({1031})}},
            {{{1, 2}, 0}, {indices({3}, {1, 2, 3})}},
            {{{2, 2}, 0}, {arg({5, 3})}, "pieces of together 4 do not fill axis 0 of [5, 3]"},
            {{{6, -1}, 0}, {arg({5, 3})}, "a piece of size -1"},
            {{{5}, 2}, {arg({5, 3})}, "axis 2 is outside input 'x'"}};
  }

  Arrays oracle(const Arrays& in) const {
    const int along = normalize_axis(axis, in[0].shape.rank(), "split");
    Arrays out;
    int64_t before = 0;
    for (int64_t size : sizes) {
      Shape piece = in[0].shape;
      piece[along] = size;
      out.push_back(rearranged(in[0], piece, [&](Dims at) {
        at[along] += before;
        return at;
      }));
      before += size;
    }
    return out;
  }

 private:
  int pieces() const { return static_cast<int>(sizes.size()); }

  /// The gradients as the one tensor that they are pieces of; absent when they are not.
  Tensor side_by_side(const autograd::Grads& g, int along) const {
    const Tensor first = g.dy(0);
    if (!first) return {};
    const Strides strides = contiguous_strides(g.meta(0).shape);
    int64_t offset = first.geometry().offset;
    for (int i = 0; i < pieces(); ++i) {
      const Tensor dy = g.dy(i);
      if (!dy || !dy.storage().same_as(first.storage()) || dy.dtype() != first.dtype() || !(dy.strides() == strides) ||
          dy.geometry().offset != offset) {
        return {};
      }
      offset += sizes[static_cast<size_t>(i)] * strides[along];
    }
    return Tensor(first.storage(), {g.meta(0).shape, strides, first.geometry().offset, first.dtype()});
  }
};
const Register<Split> split_row;

}  // namespace

Tensors split(const Tensor& x, const std::vector<int64_t>& sizes, int64_t axis) {
  return autograd::apply(Split{sizes, axis}, {x});
}

Tensors chunk(const Tensor& x, int64_t pieces, int64_t axis) {
  const int64_t size = x.size(axis);
  if (pieces <= 0 || size % pieces != 0) {
    fail(ErrorKind::internal, "E-SHAPE",
         message("chunk: axis ", axis, " of ", x.shape().str(), " does not divide into ", pieces, " equal pieces"));
  }
  return split(x, std::vector<int64_t>(static_cast<size_t>(pieces), size / pieces), axis);
}

}  // namespace mixtape::ops
