// Which kinds of samples a row has. A row whose samples miss a kind is not tested: that is a failure of the row.
#include <algorithm>

#include "autograd/cast.h"
#include "ops/optest_checks.h"

namespace mixtape::optest {
namespace {

/// At least this many elements: longer than the vector loops take at once, however they are unrolled.
constexpr int64_t long_elements = 129;
/// Lanes of the widest vector that the loops are compiled for, in f32: other sizes leave a tail.
constexpr int64_t lanes = 8;

int64_t innermost(const Shape& shape) { return shape.rank() == 0 ? 1 : shape[shape.rank() - 1]; }

/// `t` read with `size` elements along an axis: the first one for 1, else the only one again and again.
Tensor resized(const Tensor& t, int axis, int64_t size) {
  Geometry geometry = t.geometry();
  geometry.shape[axis] = size;
  if (size != 1) geometry.strides[axis] = 0;
  return Tensor(t.storage(), geometry);
}

/// `t` with one more axis in front, along which it repeats.
Tensor repeated(const Tensor& t, int64_t size) {
  Geometry geometry{{}, {}, t.geometry().offset, t.dtype()};
  geometry.shape.push_back(size);
  geometry.strides.push_back(0);
  for (int axis = 0; axis < t.rank(); ++axis) {
    geometry.shape.push_back(t.shape()[axis]);
    geometry.strides.push_back(t.strides()[axis]);
  }
  return Tensor(t.storage(), geometry);
}

/// Whether an op reads a small input again and again for a larger one: found by trying, so that a row cannot forget it.
struct Broadcasting {
  bool possible = false;  ///< some input may be smaller than it is in some sample
  bool sampled = false;   ///< some input of some sample could be larger, with the same result shape

  void look_at(const Case& c) {
    const NoGradGuard no_grad;
    in_ = c.inputs(DType::f64);
    if (in_.size() < 2) return;
    result_ = c.run(in_)[0].shape();
    for (int i = 0; i < c.inputs_count(); ++i) {
      const Tensor t = in_[static_cast<size_t>(i)];
      if (!t || t.numel() == 0) continue;
      for (int axis = 0; axis < t.rank(); ++axis) {
        const int there = result_.rank() - t.rank() + axis;  // the same axis of the result, counted from the last
        const int64_t size = there < 0 ? 1 : result_[there];
        if (size == 1) continue;
        const Tensor small = resized(t, axis, 1), large = resized(small, axis, size);
        if (t.shape()[axis] == size) possible = possible || same(c, i, small, large);
        if (t.shape()[axis] == 1) sampled = sampled || same(c, i, small, large);
      }
      if (t.rank() < result_.rank()) {
        sampled = sampled || same(c, i, t, repeated(t, result_[result_.rank() - t.rank() - 1]));
      }
    }
  }

 private:
  /// The op takes the small tensor for the large one that repeats it.
  bool same(const Case& c, int i, const Tensor& small, const Tensor& large) const {
    Tensors in = in_;
    try {
      in[static_cast<size_t>(i)] = small;
      const Tensor one = c.run(in)[0];
      in[static_cast<size_t>(i)] = large;
      const Tensor other = c.run(in)[0];
      return one.shape() == result_ && other.shape() == result_ && flatten({one}) == flatten({other});
    } catch (const Error&) {
      return false;  // the op says that this does not fit
    }
  }

  Tensors in_;
  Shape result_;
};

}  // namespace

void check_kinds(const OpSchema& op, const std::vector<AnySample>& samples, Checks& checks) {
  bool empty = false, odd = false, tail = false, bad = false;
  Broadcasting broadcasting;
  for (size_t i = 0; i < samples.size(); ++i) {
    if (!samples[i].error.empty()) {
      bad = true;
      continue;
    }
    for (const Arg& a : samples[i].args) {
      const int64_t total = a.shape.numel(), inner = innermost(a.shape);
      empty = empty || total == 0;
      odd = odd || (total < long_elements && inner > 1 && inner % 2 == 1);
      tail = tail || (total >= long_elements && inner % lanes != 0);
    }
    broadcasting.look_at(Case(op, samples[i], static_cast<int>(i)));
  }
  checks.at("samples");
  checks.expect(empty, "none has an empty tensor");
  checks.expect(odd, "none is small with an odd innermost axis");
  checks.expect(tail, "none is long enough for the vector loops (129 elements) with a tail (innermost axis % 8 != 0)");
  checks.expect(bad || autograd::is_cast(op), "none is a bad input");
  checks.expect(broadcasting.sampled || !broadcasting.possible, "none broadcasts, but the op does");
  checks.expect(!op.info->doc.empty(), "the row has no doc");
}

}  // namespace mixtape::optest
