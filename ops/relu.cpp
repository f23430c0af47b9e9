#include "ops/unary.h"

namespace mixtape::ops {
namespace {

struct Relu {
  static constexpr OpInfo info = unary("relu", Rule::keep,  // exact in every dtype
                                       saves_outputs(0), "max(x, 0); at 0 the sub-gradient 0", true);
  static constexpr bool piecewise_linear = true;
  template <class T>
  MIXTAPE_HD T f(T x) const {
    return maths::max(x, T(0));
  }
  template <class T>
  MIXTAPE_HD T df(T y) const {
    return maths::select(y > T(0), T(1), y);  // 0 and NaN stand for themselves
  }
  static double oracle(double x) { return (x + std::abs(x)) / 2; }
};
const Register<Unary<Relu>> relu_row;

}  // namespace

Tensor relu(const Tensor& x) { return autograd::apply(Unary<Relu>{}, {x})[0]; }

}  // namespace mixtape::ops
