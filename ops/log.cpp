#include "ops/unary.h"

namespace mixtape::ops {
namespace {

struct Log {
  static constexpr OpInfo info = unary("log", Rule::full,  // its slope at small x is beyond what 16 bits hold
                                       saves_inputs(0), "natural logarithm; -inf at 0, NaN below", true);
  static constexpr Range range{0.3, 5.0};
  template <class T>
  MIXTAPE_HD T f(T x) const {
    return maths::log(x);
  }
  template <class T>
  MIXTAPE_HD T df(T x) const {
    return T(1) / x;
  }
  template <class T>
  MIXTAPE_HD T d2f(T x) const {
    return T(-1) / x / x;
  }
  static double oracle(double x) { return std::log2(x) / 1.4426950408889634074; }
};
const Register<Unary<Log>> log_row;

}  // namespace

Tensor log(const Tensor& x) { return autograd::apply(Unary<Log>{}, {x})[0]; }

}  // namespace mixtape::ops
