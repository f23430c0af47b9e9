#include "ops/scalar.h"
#include "ops/unary.h"

namespace mixtape::ops {
namespace {

struct Pow {
  double exponent = 2;

  static constexpr OpInfo info =
      unary("pow", Rule::full,  // a square leaves the range of a half from 256 on
            saves_inputs(0),
            "x to a fixed power, as IEEE pow: 0^0 = 1, a negative x needs an integer power (else NaN); at 0 the slope "
            "of a power between 0 and 1 is the sub-gradient 0",
            true);

  void check(const Infer& in) const {
    if (!std::isfinite(exponent)) in.fail("the exponent must be finite");
    report_lost_scalar(info.name, "exponent", exponent, wide(in.out()));
  }
  template <class T>
  MIXTAPE_HD T f(T x) const {
    return maths::pow(x, exponent);
  }
  template <class T>
  MIXTAPE_HD T df(T x) const {
    const T slope = static_cast<T>(exponent) * maths::pow(x, exponent - 1);
    return flat_at_zero(x, slope, exponent == 0, exponent < 1);
  }
  template <class T>
  MIXTAPE_HD T d2f(T x) const {
    const T slope = static_cast<T>(exponent * (exponent - 1)) * maths::pow(x, exponent - 2);
    return flat_at_zero(x, slope, exponent == 0 || exponent == 1, exponent < 2);
  }
  /// 0 where the power is a constant (0·inf otherwise) and, for a positive exponent, instead of inf at x = 0.
  template <class T>
  MIXTAPE_HD T flat_at_zero(T x, T slope, bool constant, bool steep) const {
    const bool at_zero = steep && exponent > 0;
    return maths::select(constant, T(0), maths::select(at_zero, maths::select(x == T(0), T(0), slope), slope));
  }

  double oracle(double x) const {
    const double magnitude = std::exp2(exponent * std::log2(std::abs(x)));
    return x < 0 && std::fmod(exponent, 2) != 0 ? -magnitude : magnitude;
  }
  static std::vector<Pow> variants() { return {{2}, {3}, {-1}, {0.5}, {0}, {1}, {-2.5}, {1.5}}; }
  Range sample_range() const {
    if (exponent != std::floor(exponent)) return {0.3, 3};
    return exponent < 0 ? Range{-3, -0.5} : Range{-3, 3};
  }
  static std::vector<std::pair<Pow, std::string_view>> refused() {
    return {{{std::numeric_limits<double>::infinity()}, "pow: the exponent must be finite"}};
  }
};
const Register<Unary<Pow>> pow_row;

}  // namespace

Tensor pow(const Tensor& x, double exponent) { return autograd::apply(Unary<Pow>{{exponent}}, {x})[0]; }

}  // namespace mixtape::ops
