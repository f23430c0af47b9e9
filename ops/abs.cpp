#include "ops/unary.h"

namespace mixtape::ops {
namespace {

struct Abs {
  static constexpr OpInfo info = unary("abs", Rule::keep,  // exact in every dtype
                                       saves_inputs(0), "|x|; at 0 the sub-gradient 0", true);
  static constexpr bool piecewise_linear = true;
  template <class T>
  MIXTAPE_HD T f(T x) const {
    return maths::abs(x);
  }
  template <class T>
  MIXTAPE_HD T df(T x) const {
    return maths::select(x > T(0), T(1), maths::select(x < T(0), T(-1), x));  // 0 and NaN stand for themselves
  }
  static double oracle(double x) { return std::sqrt(x * x); }
};
const Register<Unary<Abs>> abs_row;

}  // namespace

Tensor abs(const Tensor& x) { return autograd::apply(Unary<Abs>{}, {x})[0]; }

}  // namespace mixtape::ops
