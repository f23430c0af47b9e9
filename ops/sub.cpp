#include "ops/binary.h"

namespace mixtape::ops {
namespace {

struct Sub {
  static constexpr OpInfo info = binary("sub", Rule::widest,  // as add: two rounded operands would cancel to noise
                                        {}, "a - b; the gradient of a broadcast input is summed", true);
  static constexpr int slope_a = 1, slope_b = -1;
  template <class T>
  MIXTAPE_HD T f(T a, T b) const {
    return a - b;
  }
  static double oracle(double a, double b) { return -(b - a); }
};
const Register<Binary<Sub>> sub_row;

}  // namespace

Tensor sub(const Tensor& a, const Tensor& b) { return autograd::apply(Binary<Sub>{}, {a, b})[0]; }

}  // namespace mixtape::ops
