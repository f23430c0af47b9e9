#include "ops/sigmoid.h"

namespace mixtape::ops {
namespace {

struct Silu {
  static constexpr OpInfo info =
      unary("silu", Rule::keep,  // f32 inside: σ of a rounded argument would be off by ulps of x
            saves_inputs(0), "x·σ(x), also called swish (Elfwing, Uchibe and Doya, 2017)", true);
  static constexpr int limit = 1024;  // there σ and its slopes are 0 or 1 in f64 too
  template <class T>
  MIXTAPE_HD T f(T x) const {
    return maths::select(x < T(-limit), T(-limit), x) * maths::sigmoid(x);
  }
  template <class T>
  MIXTAPE_HD T df(T x) const {
    return maths::sigmoid(x) + within(x, T(limit)) * sigmoid_slope(x);
  }
  template <class T>
  MIXTAPE_HD T d2f(T x) const {
    return T(2) * sigmoid_slope(x) + within(x, T(limit)) * sigmoid_curvature(x);
  }
  static double oracle(double x) { return x / 2 + x / 2 * std::tanh(x / 2); }
};
const Register<Unary<Silu>> silu_row;

}  // namespace

Tensor silu(const Tensor& x) { return autograd::apply(Unary<Silu>{}, {x})[0]; }

}  // namespace mixtape::ops
