#include "ops/dropout.h"

#include "autograd/backward.h"
#include "autograd/call.h"
#include "ops/ops.h"

namespace mixtape::ops {
namespace {

struct DropoutRow {
  DropoutFormula keep;
  template <class Lanes, class M>
  MIXTAPE_HD void operator()(const Lanes& lanes, int64_t n, int64_t, M* y, const M* x, const M* draw) const {
    lanes.each(n, [&](int64_t i) { y[i] = keep(x[i], draw[i]); });
  }
};

struct Dropout {
  double p = 0.5;
  RngCoordinates at = {};  // of the mask: element i, counted row-major, draws the i-th 16 bits

  static constexpr OpInfo info{.name = "dropout",
                               .precision = Rule::keep,  // multiplied in f32: 1/(1-p) rounded to 16 bits would be off
                               .inputs = {Input{"x"}, Input{.name = "places", .role = Role::index, .optional = true}},
                               .saves = saves_inputs(1),
                               .twice = true,
                               .doc =
                                   "x/(1-p) where a 16-bit draw is at least round(p·65536), else 0; the mask is "
                                   "never stored, backward draws it again (Srivastava et al., 2014); `places` says "
                                   "which row of a larger tensor each row of x is, and so which draws are its own"};

  Metas infer(const Infer& in) const {
    if (!(p >= 0.0 && p <= 1.0)) in.fail(message("p = ", p, " is not in [0, 1]"));
    if (in.has(1)) expect_places(in, 1);
    return {{.shape = in.shape(0), .dtype = in.out()}};
  }
  void forward(const Views& in, const Views& out) const {
    if (!in[1]) return kernels::map(DropoutFormula(p), out[0], in[0], at);
    kernels::rows(DropoutRow{DropoutFormula(p)}, in[0].shape, kernels::write(out[0]), in[0],
                  kernels::random_rows(at, as_column(in[1])));
  }
  Tensors backward(autograd::Grads& g) const {  // linear: its own adjoint
    return {autograd::apply(*this, {g.dy(), g.has(1) ? g.in(1) : Tensor()})[0], {}};
  }

  static Samples<Dropout> samples() {
    const RngCoordinates first{7, rng_stream::dropout, 3, 1, 2}, second{1ull << 40, rng_stream::dropout, 1, 0, 65};
    return {{{0.1, first}, {arg({3, 5}), absent()}},
            {{0.5, second}, {arg({2, 3, 7}), absent()}},
            {{0.9, first}, {arg({1031}), absent()}},
            {{0.0, first}, {arg({9}), absent()}},
            {{1.0, first}, {arg({4, 1}), absent()}},
            {{0.5, first}, {arg({}), absent()}},
            {{0.1, first}, {arg({0, 3}), absent()}},
            {{0.5, first}, {arg({3, 21}), indices({3}, {0, 5, 2})}},
            {{0.3, second}, {arg({2, 2, 5}), indices({2, 2}, {9, 1, 7, 3})}},
            {{0.5, first}, {arg({2, 600}), indices({2}, {1, 1})}},
            {{-0.1, first}, {arg({2}), absent()}, "p = -0.1 is not in [0, 1]"},
            {{1.5, first}, {arg({2}), absent()}, "p = 1.5 is not in [0, 1]"},
            {{static_cast<double>(NAN), first}, {arg({2}), absent()}, "p = nan is not in [0, 1]"},
            {{0.5, first}, {arg({3, 4}), indices({2}, {0, 1})}, "'places' has shape [2], expected [3]"}};
  }

  Arrays oracle(const Arrays& in) const {
    Array y = in[0];
    const size_t row = y.shape.rank() == 0 ? 1 : static_cast<size_t>(std::max<int64_t>(y.shape.back(), 1));
    for (size_t i = 0; i < y.values.size(); ++i) {
      const size_t element = in[1].values.empty() ? i : static_cast<size_t>(in[1].values[i / row]) * row + i % row;
      y.values[i] = drop_exactly(y.values[i], p, at, element);
    }
    return {y};
  }
};
const Register<Dropout> dropout_row;

}  // namespace

Tensor dropout(const Tensor& x, double p, const Tensor& places) {
  const RngCoordinates at = next_draw();
  return p == 0.0 ? x : autograd::apply(Dropout{p, at}, {x, places})[0];
}

}  // namespace mixtape::ops
