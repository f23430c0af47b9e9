#include "ops/unary.h"

namespace mixtape::ops {
namespace {

struct Exp {
  static constexpr OpInfo info = unary("exp", Rule::full,  // a half ends at e^11.09, and half an ulp of x is a factor
                                       saves_outputs(0), "e^x; inf where the result leaves f32", true);
  template <class T>
  MIXTAPE_HD T f(T x) const {
    return maths::exp(x);
  }
  template <class T>
  MIXTAPE_HD T df(T y) const {
    return y;
  }
  template <class T>
  MIXTAPE_HD T d2f(T) const {
    return T(1);
  }
  static double oracle(double x) { return std::pow(2.718281828459045235, x); }
};
const Register<Unary<Exp>> exp_row;

}  // namespace

Tensor exp(const Tensor& x) { return autograd::apply(Unary<Exp>{}, {x})[0]; }

}  // namespace mixtape::ops
