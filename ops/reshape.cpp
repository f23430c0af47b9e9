#include "autograd/backward.h"
#include "autograd/call.h"
#include "core/kernels/basic.h"
#include "core/kernels/plan.h"
#include "ops/ops.h"

namespace mixtape::ops {
namespace {

// Strides that read `x`, in row-major order, as `shape`: each axis must divide a run of elements that are stored at one
// stride. False when only a copy can do it.
bool reread(const View& x, const Shape& shape, Strides& strides) {
  strides = contiguous_strides(shape);
  if (shape.numel() == 0) return true;
  const kernels::Plan runs = kernels::make_plan(x.shape, &x, 1);
  int run = runs.rank - 1;
  int64_t covered = 1;  // elements of this run that later axes walk
  for (int axis = shape.rank() - 1; axis >= 0; --axis) {
    if (shape[axis] == 1) continue;
    if (covered == runs.size[run]) --run, covered = 1;
    if (runs.size[run] % (covered * shape[axis]) != 0) return false;
    strides[axis] = covered * runs.stride[0][run];
    covered *= shape[axis];
  }
  return true;
}

struct Reshape {
  Shape shape;  // one size may be -1: what is left

  static constexpr OpInfo info{.name = "reshape",
                               .precision = Rule::keep,  // no value changes
                               .inputs = {Input{"x"}},
                               .any_dtype = true,
                               .wide_dy = true,
                               .twice = true,
                               .doc =
                                   "x's elements in row-major order in another shape: a view where the strides "
                                   "allow, else a copy; one size may be -1"};

  Metas infer(const Infer& in) const {
    Meta meta{.shape = resolved(in), .dtype = in.out()};
    if (reread(in.tensor(0).view(), meta.shape, meta.strides)) meta.alias_of = 0;
    return {meta};
  }

  void forward(const Views& in, const Views& out) const {
    View flat = out[0];  // fresh, so contiguous: it can be written in the shape of x
    flat.shape = in[0].shape;
    flat.strides = contiguous_strides(flat.shape);
    kernels::copy(in[0], flat);
  }

  Tensors backward(autograd::Grads& g) const { return {reshape(g.dy(), g.meta(0).shape)}; }

  static Samples<Reshape> samples() {
    return {{{{6, 4}}, {arg({2, 3, 4})}},
            {{{4, -1}}, {arg({2, 3, 4})}},
            {{{-1}}, {arg({5, 1, 7})}},
            {{{1, 1}}, {arg({})}},
            {{{}}, {arg({1})}},
            {{{0, 5}}, {arg({2, 0})}},
            {{{-1, 1}}, {arg({1031})}},
            {{{3, 2}}, {indices({6}, {5, 4, 3, 2, 1, 0})}},
            {{{2, 2}}, {mask({4}, {0, 1, 1, 0})}},
            {{{2, 5}}, {arg({3, 4})}, "12 elements of [3, 4] do not fill [2, 5]"},
            {{{-1, 5}}, {arg({3, 4})}, "12 elements of [3, 4] do not fill [-1, 5]"},
            {{{-1, -1}}, {arg({3, 4})}, "[-1, -1] leaves more than one size open"},
            {{{-2, 6}}, {arg({3, 4})}, "a size of [-2, 6] is negative"},
            {{{-1, 0}}, {arg({0, 4})}, "any size would do for the -1 of [-1, 0]"}};
  }

  Arrays oracle(const Arrays& in) const {
    Array y{shape, in[0].values};
    for (int axis = 0; axis < shape.rank(); ++axis) {  // the product of a shape with a -1 is minus the known sizes'
      if (shape[axis] == -1) y.shape[axis] = static_cast<int64_t>(y.values.size()) / -shape.numel();
    }
    return {y};
  }

 private:
  Shape resolved(const Infer& in) const {
    Shape result = shape;
    int open = -1;
    int64_t known = 1;
    for (int axis = 0; axis < shape.rank(); ++axis) {
      if (shape[axis] < -1) in.fail(message("a size of ", shape.str(), " is negative"));
      if (shape[axis] == -1 && open >= 0) in.fail(message(shape.str(), " leaves more than one size open"));
      if (shape[axis] == -1) {
        open = axis;
      } else {
        known *= shape[axis];
      }
    }
    const int64_t count = in.shape(0).numel();
    if (open >= 0 && known == 0) in.fail(message("any size would do for the -1 of ", shape.str()));
    if (open >= 0) result[open] = count / known;
    if (result.numel() != count) {
      in.fail(message(count, " elements of ", in.shape(0).str(), " do not fill ", shape.str()));
    }
    return result;
  }
};
const Register<Reshape> reshape_row;

}  // namespace

Tensor reshape(const Tensor& x, const Shape& shape) { return autograd::apply(Reshape{shape}, {x})[0]; }

Tensor unsqueeze(const Tensor& x, int64_t axis) {
  Shape shape = x.shape();
  shape.insert(normalize_axis(axis, shape.rank() + 1, "unsqueeze"), 1);
  return reshape(x, shape);
}

Tensor squeeze(const Tensor& x, int64_t axis) {
  Shape shape = x.shape();
  const int at = normalize_axis(axis, shape.rank(), "squeeze");
  if (shape[at] != 1) {
    fail(ErrorKind::internal, "E-SHAPE",
         message("squeeze: axis ", axis, " of ", shape.str(), " has size ", shape[at], ", expected 1"));
  }
  shape.erase(at);
  return reshape(x, shape);
}

}  // namespace mixtape::ops
