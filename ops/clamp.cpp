#include "ops/scalar.h"
#include "ops/unary.h"

namespace mixtape::ops {
namespace {

struct Clamp {
  double low = -1.2539, high = 2.5078;

  static constexpr OpInfo info = unary(
      "clamp", Rule::keep,  // compares in f32, so bounds are not rounded before they act
      saves_inputs(0), "x within [low, high]; the slope is 1 there, ends included, and 0 outside; NaN passes", true);
  static constexpr bool piecewise_linear = true;

  void check(const Infer& in) const {
    if (!(low <= high)) in.fail(message("low ", low, " is not below high ", high));
    report_lost_scalar(info.name, "low", low, in.out());
    report_lost_scalar(info.name, "high", high, in.out());
  }
  template <class T>
  MIXTAPE_HD T f(T x) const {
    return maths::min(maths::max(x, static_cast<T>(low)), static_cast<T>(high));
  }
  template <class T>
  MIXTAPE_HD T df(T x) const {
    return maths::select(x < static_cast<T>(low) || x > static_cast<T>(high), T(0), T(1));
  }
  double oracle(double x) const { return x < low ? low : std::fmin(x, high); }
  static std::vector<Clamp> variants() {
    return {{}, {-std::numeric_limits<double>::infinity(), 1.2402}, {0.50293, 0.50293}};
  }
  static std::vector<std::pair<Clamp, std::string_view>> refused() {
    return {{{1, 0.5}, "low 1 is not below high 0.5"}, {{NAN, 1}, "is not below"}};
  }
};
const Register<Unary<Clamp>> clamp_row;

}  // namespace

Tensor clamp(const Tensor& x, double low, double high) { return autograd::apply(Unary<Clamp>{{low, high}}, {x})[0]; }

}  // namespace mixtape::ops
