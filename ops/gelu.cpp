#include "ops/gelu.h"

#include "ops/ops.h"
#include "ops/unary.h"

namespace mixtape::ops {
namespace {

struct Gelu {
  static constexpr OpInfo info =
      unary("gelu", Rule::keep,  // f32 inside: erf of a rounded argument would be off by ulps of x
            saves_inputs(0), "x·Φ(x), the erf form that BERT uses (Hendrycks and Gimpel, 2016)", true);
  template <class T>
  MIXTAPE_HD T f(T x) const {
    return gelu_value(x);
  }
  template <class T>
  MIXTAPE_HD T df(T x) const {
    return gelu_slope(x);
  }
  template <class T>
  MIXTAPE_HD T d2f(T x) const {
    return gelu_curvature(x);
  }
  static double oracle(double x) { return 0.5 * x * (1.0 + std::erf(x / std::sqrt(2.0))); }
};
const Register<Unary<Gelu>> gelu_row;

}  // namespace

Tensor gelu(const Tensor& x) { return autograd::apply(Unary<Gelu>{}, {x})[0]; }

}  // namespace mixtape::ops
