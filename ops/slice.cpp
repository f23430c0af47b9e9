#include "autograd/backward.h"
#include "autograd/call.h"
#include "core/kernels/basic.h"
#include "core/kernels/layout.h"
#include "ops/coordinates.h"
#include "ops/ops.h"

namespace mixtape::ops {
namespace {

// What a slice reads, counted from the front.
struct Places {
  int axis;
  int64_t start, count, step;
};

// The adjoint of slice, no row of the table: zeros with x in the places that the slice read.
struct Unslice {
  Shape shape;
  Places at;

  static constexpr OpInfo info{
      .name = "unslice", .precision = Rule::keep, .inputs = {Input{"x"}}, .wide_dy = true, .twice = true};
  Metas infer(const Infer& in) const { return {{.shape = shape, .dtype = in.out()}}; }
  void forward(const Views& in, const Views& out) const {
    kernels::fill(out[0], 0.0);
    kernels::copy(in[0], kernels::section(out[0], at.axis, at.start, at.count, at.step));
  }
  Tensors backward(autograd::Grads& g) const {
    const int64_t end = at.count == 0 ? at.start : at.start + (at.count - 1) * at.step + 1;
    return {slice(g.dy(), at.axis, at.start, end, at.step)};
  }
  static Samples<Unslice> samples() { return {}; }
  Arrays oracle(const Arrays& in) const { return in; }
};

struct Slice {
  int64_t axis = 0, start = 0, end = to_end, step = 1;

  static constexpr OpInfo info{.name = "slice",
                               .precision = Rule::keep,  // no value changes
                               .inputs = {Input{"x"}},
                               .any_dtype = true,
                               .wide_dy = true,
                               .twice = true,
                               .doc =
                                   "every step-th place of [start, end) along one axis: a view; negative bounds "
                                   "count from the back"};

  Metas infer(const Infer& in) const {
    const Places at = resolved(in);
    const Geometry& x = in.geometry(0);
    Meta meta{.shape = x.shape, .dtype = in.out(), .alias_of = 0, .strides = x.strides};
    meta.shape[at.axis] = at.count;
    meta.offset = at.start * x.strides[at.axis];
    meta.strides[at.axis] *= step;
    return {meta};
  }
  void forward(const Views&, const Views&) const {}  // never called: the output is the input's bytes

  Tensors backward(autograd::Grads& g) const {
    const Shape& whole = g.meta(0).shape;
    const int along = normalize_axis(axis, whole.rank(), "slice");
    const Places at{along, start < 0 ? start + whole[along] : start, g.dy().shape()[along], step};
    return autograd::apply(Unslice{whole, at}, {g.dy()});
  }

  static Samples<Slice> samples() {
    return {{{0, 1, 3, 1}, {arg({5, 3})}},
            {{1, 0, to_end, 2}, {arg({3, 7})}},
            {{-1, -3, -1, 1}, {arg({2, 3, 8})}},
            {{1, 2, 2, 1}, {arg({2, 5})}},
            {{0, 0, to_end, 1}, {arg({0, 4})}},
            {{0, 5, 1031, 3}, {arg({1031})}},
            {{0, 1, 3, 1}, {indices({4}, {9, 8, 7, 6})}},
            {{1, 0, 4, 1}, {arg({2, 3})}, "[0, 4) lies outside axis 1 of [2, 3]"},
            {{1, 2, 1, 1}, {arg({2, 3})}, "[2, 1) lies outside axis 1 of [2, 3]"},
            {{0, 0, 2, 0}, {arg({2, 3})}, "step 0 is not positive"},
            {{2, 0, 1, 1}, {arg({2, 3})}, "axis 2 is outside input 'x'"}};
  }

  Arrays oracle(const Arrays& in) const {
    const int along = normalize_axis(axis, in[0].shape.rank(), "slice");
    const int64_t size = in[0].shape[along], low = start < 0 ? start + size : start, high = end < 0 ? end + size : end;
    std::vector<int64_t> places;
    for (int64_t i = 0; i < size; ++i) {
      if (i >= low && i < high && (i - low) % step == 0) places.push_back(i);
    }
    Shape shape = in[0].shape;
    shape[along] = static_cast<int64_t>(places.size());
    return {rearranged(in[0], shape, [&](Dims at) {
      at[along] = places[static_cast<size_t>(at[along])];
      return at;
    })};
  }

 private:
  Places resolved(const Infer& in) const {
    const int along = in.axis(0, axis);
    const int64_t size = in.shape(0)[along];
    const int64_t from = start < 0 ? start + size : start;
    const int64_t to = end == to_end ? size : end < 0 ? end + size : end;
    if (step <= 0) in.fail(message("step ", step, " is not positive"));
    if (from < 0 || from > to || to > size) {
      in.fail(message("[", start, ", ", to, ") lies outside axis ", along, " of ", in.shape(0).str()));
    }
    return {along, from, (to - from + step - 1) / step, step};
  }
};
const Register<Slice> slice_row;

}  // namespace

Tensor slice(const Tensor& x, int64_t axis, int64_t start, int64_t end, int64_t step) {
  return autograd::apply(Slice{axis, start, end, step}, {x})[0];
}

}  // namespace mixtape::ops
