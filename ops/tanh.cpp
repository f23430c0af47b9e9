#include "ops/sigmoid.h"

namespace mixtape::ops {
namespace {

struct Tanh {
  static constexpr OpInfo info =
      unary("tanh", Rule::keep,  // f32 inside
            saves_inputs(0), "hyperbolic tangent; keeps x, because 1 - y² of a rounded y is noise where |x| > 3", true);
  template <class T>
  MIXTAPE_HD T f(T x) const {
    return maths::tanh(x);
  }
  template <class T>
  MIXTAPE_HD T df(T x) const {
    return T(4) * sigmoid_slope(T(2) * x);  // 1/cosh², without cancellation
  }
  template <class T>
  MIXTAPE_HD T d2f(T x) const {
    return T(-8) * maths::tanh(x) * sigmoid_slope(T(2) * x);
  }
  static double oracle(double x) { return -std::expm1(-2 * x) / (1 + std::exp(-2 * x)); }
};
const Register<Unary<Tanh>> tanh_row;

}  // namespace

Tensor tanh(const Tensor& x) { return autograd::apply(Unary<Tanh>{}, {x})[0]; }

}  // namespace mixtape::ops
