#include "ops/unary.h"

namespace mixtape::ops {
namespace {

struct Neg {
  static constexpr OpInfo info = unary("neg", Rule::keep,  // exact in every dtype
                                       {}, "-x, element by element", true);
  static constexpr int slope = -1;
  template <class T>
  MIXTAPE_HD T f(T x) const {
    return -x;
  }
  static double oracle(double x) { return x - (x + x); }
};
const Register<Unary<Neg>> neg_row;

}  // namespace

Tensor neg(const Tensor& x) { return autograd::apply(Unary<Neg>{}, {x})[0]; }

}  // namespace mixtape::ops
