#include <algorithm>

#include "autograd/backward.h"
#include "autograd/call.h"
#include "core/factory.h"
#include "ops/reduce.h"

namespace mixtape::ops {
namespace {

using kernels::write;

struct MaxRow {
  template <class Lanes, class M>
  MIXTAPE_HD void operator()(const Lanes& lanes, int64_t n, int64_t, M* y, const M* x) const {
    *y = lanes.max(n, [&](int64_t i) { return x[i]; });
  }
};
struct MaxRowGrad {
  template <class Lanes, class M>
  MIXTAPE_HD void operator()(const Lanes& lanes, int64_t n, int64_t, M* dx, const M* dy, const M* x, const M* y) const {
    bool given = false;
    lanes.in_order(n, [&](int64_t i) {
      const bool here = !given && (x[i] == *y || (maths::is_nan(x[i]) && maths::is_nan(*y)));
      dx[i] = maths::select(here, *dy, M(0));
      given = given || here;
    });
  }
};

// A whole tensor is cut into rows of this many elements, so that threads share it; the last one may be shorter.
constexpr int64_t piece = 4096;
int64_t pieces_of(int64_t n) { return (n + piece - 1) / piece; }

template <class F>  // f(first row, rows, elements of each)
void for_pieces(int64_t n, const F& f) {
  if (n >= piece) f(int64_t{0}, n / piece, piece);
  if (n % piece != 0) f(n / piece, int64_t{1}, n % piece);
}
View part(const View& contiguous, int64_t start, const Shape& shape) {
  View v = contiguous;
  v.data = static_cast<char*>(v.data) + start * size_of(v.dtype);
  v.shape = shape;
  v.strides = contiguous_strides(shape);
  return v;
}

struct Max {
  Reduce over;

  static constexpr OpInfo info{
      .name = "max",
      .precision = Rule::keep,  // a selection: no rounding anywhere
      .inputs = {Input{"x"}},
      .saves = saves_inputs(0) | saves_outputs(0),
      .doc = "the largest value over one axis or all, NaN above all; its gradient goes to the first of equal ones"};

  Metas infer(const Infer& in) const {
    const Shape shape = over.infer(in);
    over.expect_terms(in);
    return {{.shape = shape, .dtype = in.out()}};
  }

  void forward(const Views& in, const Views& out) const {
    if (!over.axis) return largest_of_all(in[0], out[0]);
    const int axis = normalize_axis(*over.axis, in[0].shape.rank(), "max");
    const View x = axis_last(in[0], axis);
    kernels::rows(MaxRow{}, x.shape, write(axis_last(over.kept_view(out[0], in[0].shape), axis)), x);
  }

  Tensors backward(autograd::Grads& g) const {
    const Tensor x = g.in(0), y = g.out(0), dx = empty_like(x);
    if (!over.axis) return give_to_first(x, y, g.dy(), dx), Tensors{dx};
    const int axis = normalize_axis(*over.axis, x.rank(), "max");
    const auto last = [&](const View& v) { return axis_last(over.kept_view(v, x.shape()), axis); };
    const View rows = last(x.view());
    kernels::rows(MaxRowGrad{}, rows.shape, write(last(dx.view())), last(g.dy().view()), rows, last(y.view()));
    return {dx};
  }

  // The maximum of the maxima of the pieces; the gradient goes down the same two steps.
  static Tensor piece_maxima(const View& x) {
    const Tensor best = empty({pieces_of(x.numel())}, x.dtype, x.device);
    for_pieces(x.numel(), [&](int64_t first, int64_t rows, int64_t n) {
      kernels::rows(MaxRow{}, {rows, n}, write(part(best.view(), first, {rows, 1})), part(x, first * piece, {rows, n}));
    });
    return best;
  }
  static void largest_of_all(const View& x, const View& y) {
    Tensor packed;
    if (!x.contiguous()) kernels::copy(x, (packed = empty(x.shape, x.dtype, x.device)).view());
    const Tensor best = piece_maxima(packed ? packed.view() : x);
    kernels::rows(MaxRow{}, {1, best.numel()}, write(part(y, 0, {1, 1})), part(best.view(), 0, {1, best.numel()}));
  }
  static void give_to_first(const Tensor& x, const Tensor& y, const Tensor& dy, const Tensor& dx) {
    const Tensor packed = x.contiguous() ? x : copy_of(x);
    const View flat = packed.view();
    const Tensor best = piece_maxima(flat), share = empty(best.shape(), best.dtype(), x.device());
    const Shape all{1, best.numel()};
    kernels::rows(MaxRowGrad{}, all, write(part(share.view(), 0, all)), part(dy.view(), 0, {1, 1}),
                  part(best.view(), 0, all), part(y.view(), 0, {1, 1}));
    for_pieces(x.numel(), [&](int64_t first, int64_t rows, int64_t n) {
      kernels::rows(MaxRowGrad{}, {rows, n}, write(part(dx.view(), first * piece, {rows, n})),
                    part(share.view(), first, {rows, 1}), part(flat, first * piece, {rows, n}),
                    part(best.view(), first, {rows, 1}));
    });
  }

  // Far from ties, so that differences see the slope: steps of 0.1, in an order that 37 shuffles.
  static Arg spaced(const Shape& shape) {
    std::vector<double> values(static_cast<size_t>(shape.numel()));
    for (size_t i = 0; i < values.size(); ++i) values[i] = -0.1 * static_cast<double>((i * 37 + 5) % values.size());
    return fixed(shape, std::move(values));
  }
  static Samples<Max> samples() {
    Samples<Max> all;
    for (const auto& [over, shape] : reduce_cases()) all.push_back({{over}, {spaced(shape)}});
    all.push_back({{}, {arg({0, 3})}, "there is nothing to reduce in a tensor of shape [0, 3]"});
    all.push_back({{{1}}, {arg({3})}, "axis 1 is outside input 'x' of shape [3]"});
    return all;
  }

  Arrays oracle(const Arrays& in) const {
    return {reduced(in[0], over, [](std::vector<double> x) {
      std::sort(x.begin(), x.end());
      return x.back();
    })};
  }
};
const Register<Max> max_row;

}  // namespace

Tensor max(const Tensor& x, std::optional<int64_t> axis, bool keepdim) {
  return autograd::apply(Max{{axis, keepdim}}, {x})[0];
}

}  // namespace mixtape::ops
