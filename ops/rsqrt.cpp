#include "ops/unary.h"

namespace mixtape::ops {
namespace {

struct Rsqrt {
  static constexpr OpInfo info = unary("rsqrt", Rule::full,  // what it is taken of is a sum of squares
                                       saves_inputs(0), "1/√x; inf at 0, NaN below", true);
  static constexpr Range range{0.1, 4.0};
  template <class T>
  MIXTAPE_HD T f(T x) const {
    return maths::rsqrt(x);
  }
  template <class T>
  MIXTAPE_HD T df(T x) const {
    return T(-0.5) * maths::rsqrt(x) / x;
  }
  template <class T>
  MIXTAPE_HD T d2f(T x) const {
    return T(0.75) * maths::rsqrt(x) / x / x;
  }
  static double oracle(double x) { return std::exp(-0.5 * std::log(x)); }
};
const Register<Unary<Rsqrt>> rsqrt_row;

}  // namespace

Tensor rsqrt(const Tensor& x) { return autograd::apply(Unary<Rsqrt>{}, {x})[0]; }

}  // namespace mixtape::ops
