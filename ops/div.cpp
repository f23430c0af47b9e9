#include "ops/binary.h"

namespace mixtape::ops {
namespace {

struct Div {
  static constexpr OpInfo info = binary("div", Rule::widest,  // as mul
                                        saves_inputs(0, 1), "a / b; IEEE at b = 0: ±inf, and NaN for 0/0", true);
  static constexpr Range range_b{0.5, 3.0};
  template <class T>
  MIXTAPE_HD T f(T a, T b) const {
    return a / b;
  }
  template <class T>
  MIXTAPE_HD T dfa(T, T b) const {
    return T(1) / b;
  }
  template <class T>
  MIXTAPE_HD T dfb(T a, T b) const {
    return -(a / b) / b;  // b² would underflow from |b| = 1e-19 on
  }
  static Tensor da_ops(const Tensor& dy, const Tensor&, const Tensor& b) { return div(dy, b); }
  static Tensor db_ops(const Tensor& dy, const Tensor& a, const Tensor& b) { return neg(mul(dy, div(div(a, b), b))); }
  static double oracle(double a, double b) { return std::copysign(std::exp(std::log(std::abs(a)) - std::log(b)), a); }
};
const Register<Binary<Div>> div_row;

}  // namespace

Tensor div(const Tensor& a, const Tensor& b) { return autograd::apply(Binary<Div>{}, {a, b})[0]; }

}  // namespace mixtape::ops
