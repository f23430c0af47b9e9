#include "ops/unary.h"

namespace mixtape::ops {
namespace {

struct Sqrt {
  static constexpr OpInfo info = unary("sqrt", Rule::full,  // its slope at small x is beyond what 16 bits hold
                                       saves_outputs(0), "√x; at 0 the sub-gradient 0, NaN below", true);
  static constexpr Range range{0.1, 4.0};
  template <class T>
  MIXTAPE_HD T f(T x) const {
    return maths::sqrt(x);
  }
  template <class T>
  MIXTAPE_HD T df(T y) const {
    return maths::select(y == T(0), T(0), T(0.5) / y);  // never inf·0
  }
  template <class T>
  MIXTAPE_HD T d2f(T y) const {
    return maths::select(y == T(0), T(0), T(-0.5) / y / y);
  }
  static double oracle(double x) { return std::exp(0.5 * std::log(x)); }
};
const Register<Unary<Sqrt>> sqrt_row;

}  // namespace

Tensor sqrt(const Tensor& x) { return autograd::apply(Unary<Sqrt>{}, {x})[0]; }

}  // namespace mixtape::ops
