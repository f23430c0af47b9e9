#include "ops/dropout.h"

#include "autograd/backward.h"
#include "autograd/call.h"
#include "core/context.h"
#include "core/kernels/loops.h"
#include "ops/ops.h"

namespace mixtape::ops {
namespace {

struct Dropout {
  double p = 0.5;
  RngCoordinates at = {};  // of the mask: element i, counted row-major, draws the i-th 16 bits

  static constexpr OpInfo info{.name = "dropout",
                               .precision = Rule::keep,  // multiplied in f32: 1/(1-p) rounded to 16 bits would be off
                               .inputs = {Input{"x"}},
                               .twice = true,
                               .doc =
                                   "x/(1-p) where a 16-bit draw is at least round(p·65536), else 0; the mask is "
                                   "never stored, backward draws it again (Srivastava et al., 2014)"};

  Metas infer(const Infer& in) const {
    if (!(p >= 0.0 && p <= 1.0)) in.fail(message("p = ", p, " is not in [0, 1]"));
    return {{.shape = in.shape(0), .dtype = in.out()}};
  }
  void forward(const Views& in, const Views& out) const { kernels::map(DropoutFormula(p), out[0], in[0], at); }
  Tensors backward(autograd::Grads& g) const { return autograd::apply(*this, {g.dy()}); }  // linear: its own adjoint

  static Samples<Dropout> samples() {
    const RngCoordinates first{7, rng_stream::dropout, 3, 1, 2}, second{1ull << 40, rng_stream::dropout, 1, 0, 65};
    return {{{0.1, first}, {arg({3, 5})}},
            {{0.5, second}, {arg({2, 3, 7})}},
            {{0.9, first}, {arg({1031})}},
            {{0.0, first}, {arg({9})}},
            {{1.0, first}, {arg({4, 1})}},
            {{0.5, first}, {arg({})}},
            {{0.1, first}, {arg({0, 3})}},
            {{-0.1, first}, {arg({2})}, "p = -0.1 is not in [0, 1]"},
            {{1.5, first}, {arg({2})}, "p = 1.5 is not in [0, 1]"},
            {{static_cast<double>(NAN), first}, {arg({2})}, "p = nan is not in [0, 1]"}};
  }

  Arrays oracle(const Arrays& in) const {
    Array y = in[0];
    for (size_t i = 0; i < y.values.size(); ++i) {
      const bool kept = static_cast<double>(random16(at, i)) >= std::nearbyint(p * 65536.0);
      y.values[i] = kept ? y.values[i] / (1.0 - p) : 0.0;
    }
    return {y};
  }
};
const Register<Dropout> dropout_row;

}  // namespace

Tensor dropout(const Tensor& x, double p) {
  const RngCoordinates at = context().rng;
  ++context().rng.draw;
  return p == 0.0 ? x : autograd::apply(Dropout{p, at}, {x})[0];
}

}  // namespace mixtape::ops
