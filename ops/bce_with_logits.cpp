#include "ops/losses.h"

namespace mixtape::ops {
namespace {

struct BceWithLogits {
  static constexpr OpInfo info =
      element_loss("bce_with_logits",
                   Rule::full,  // the sigmoid of 8.32 is 1 in a half, and log(1 - 1) is -inf: so logits, in f32
                   Input{"logits"}, true,
                   "-t·log σ(x) - (1 - t)·log(1 - σ(x)) as max(x, 0) - x·t + log(1 + e^-|x|): nothing overflows");
  template <class T>
  MIXTAPE_HD T f(T x, T t) const {
    return maths::max(x, T(0)) - x * t + maths::log1p(maths::exp(-maths::abs(x)));
  }
  template <class T>
  MIXTAPE_HD T dx(T x, T t) const {
    return maths::sigmoid(x) - t;
  }
  template <class T>
  MIXTAPE_HD T dt(T x, T) const {
    return -x;
  }
  static Tensor dx_ops(const Tensor& x, const Tensor& t) { return sub(sigmoid(x), t); }
  static Tensor dt_ops(const Tensor& x, const Tensor&) { return neg(x); }
  static double oracle(double x, double t) {
    return static_cast<double>(t * std::log1p(std::exp(static_cast<long double>(-x))) +
                               (1 - t) * std::log1p(std::exp(static_cast<long double>(x))));
  }
  static constexpr double range[4] = {-4, 4, 0, 1};
};
const Register<ElementLoss<BceWithLogits>> bce_with_logits_row;

}  // namespace

Tensor bce_with_logits(const Tensor& logits, const Tensor& targets, const LossOptions& options) {
  return autograd::apply(ElementLoss<BceWithLogits>{options}, {logits, targets})[0];
}

}  // namespace mixtape::ops
