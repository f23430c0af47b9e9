#include "ops/sigmoid.h"

namespace mixtape::ops {
namespace {

// x·(1 + tanh u)/2 = x·σ(2u): the second form has no cancellation where tanh is near -1, so the negative tail is right.
struct GeluTanh {
  static constexpr OpInfo info =
      unary("gelu_tanh", Rule::keep,  // f32 inside, argument clamped: x³ is inf in a half from 41 on
            saves_inputs(0), "GELU by its tanh approximation, x·σ(2u), u = √(2/π)·(x + 0.044715·x³)", true);
  static constexpr int limit = 64;  // there σ is 0 or 1 in f64 too, and x³ is small enough

  template <class T>
  MIXTAPE_HD static T argument(T c) {  // 2u
    return T(1.5957691216057307) * c * maths::fma(c * c, T(0.044715), T(1));
  }
  template <class T>
  MIXTAPE_HD static T argument_slope(T c) {
    return T(1.5957691216057307) * maths::fma(c * c, T(0.134145), T(1));
  }
  template <class T>
  MIXTAPE_HD T f(T x) const {
    return maths::select(x < T(-limit), T(-limit), x) * maths::sigmoid(argument(within(x, T(limit))));
  }
  template <class T>
  MIXTAPE_HD T df(T x) const {
    const T c = within(x, T(limit)), v = argument(c);
    return maths::fma(c * argument_slope(c), sigmoid_slope(v), maths::sigmoid(v));
  }
  template <class T>
  MIXTAPE_HD T d2f(T x) const {
    const T c = within(x, T(limit)), v = argument(c), dv = argument_slope(c), d2v = T(0.42812882550438234) * c;
    return (T(2) * dv + c * d2v) * sigmoid_slope(v) + c * dv * dv * sigmoid_curvature(v);
  }
  static double oracle(double x) {
    return 0.5 * x * (1 + std::tanh(std::sqrt(2 / 3.14159265358979323846) * (x + 0.044715 * x * x * x)));
  }
};
const Register<Unary<GeluTanh>> gelu_tanh_row;

}  // namespace

Tensor gelu_tanh(const Tensor& x) { return autograd::apply(Unary<GeluTanh>{}, {x})[0]; }

}  // namespace mixtape::ops
