#include "ops/sigmoid.h"

namespace mixtape::ops {
namespace {

struct Sigmoid {
  static constexpr OpInfo info =
      unary("sigmoid", Rule::keep,  // f32 inside
            saves_inputs(0), "1/(1 + e^-x); keeps x, because y(1 - y) of a rounded y is noise where x > 5", true);
  template <class T>
  MIXTAPE_HD T f(T x) const {
    return maths::sigmoid(x);
  }
  template <class T>
  MIXTAPE_HD T df(T x) const {
    return sigmoid_slope(x);
  }
  template <class T>
  MIXTAPE_HD T d2f(T x) const {
    return sigmoid_curvature(x);
  }
  static double oracle(double x) { return 0.5 * (1 + std::tanh(0.5 * x)); }
};
const Register<Unary<Sigmoid>> sigmoid_row;

}  // namespace

Tensor sigmoid(const Tensor& x) { return autograd::apply(Unary<Sigmoid>{}, {x})[0]; }

}  // namespace mixtape::ops
