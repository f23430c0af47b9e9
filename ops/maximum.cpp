#include "ops/extremum.h"

namespace mixtape::ops {
namespace {

struct Maximum {
  static constexpr OpInfo info = binary(
      "maximum", Rule::widest,  // a comparison of rounded values could pick the wrong one
      saves_inputs(0, 1),
      "the larger of a and b; NaN in either gives NaN; where they are equal each gets half of the gradient", true);
  static constexpr bool piecewise_linear = true;
  template <class T>
  MIXTAPE_HD T f(T a, T b) const {
    return maths::max(a, b);  // by comparison: (a + b + |a - b|)/2 overflows
  }
  template <class T>
  MIXTAPE_HD T dfa(T a, T b) const {
    return chosen_slope(a > b, a, b);
  }
  template <class T>
  MIXTAPE_HD T dfb(T a, T b) const {
    return chosen_slope(b > a, b, a);
  }
  static double oracle(double a, double b) { return (a + b + std::abs(a - b)) / 2; }
  static std::vector<Arg> sample_args(const Shape& a, const Shape& b) { return separated_args(a, b); }
};
const Register<Binary<Maximum>> maximum_row;

}  // namespace

Tensor maximum(const Tensor& a, const Tensor& b) { return autograd::apply(Binary<Maximum>{}, {a, b})[0]; }

}  // namespace mixtape::ops
