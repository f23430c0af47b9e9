#include "ops/losses.h"

namespace mixtape::ops {
namespace {

// Logarithms end at -100, so that a probability of exactly 0 or 1 gives a finite loss; beyond, the slope is 0.
template <class T>
MIXTAPE_HD T bounded_log(T p) {
  return maths::max(maths::log(p), T(-100));
}
template <class T>
MIXTAPE_HD T bounded_log_slope(T p) {
  return maths::select(maths::log(p) > T(-100), T(1) / p, T(0));
}

struct BinaryCrossEntropy {
  static constexpr OpInfo info = element_loss(
      "binary_cross_entropy",
      Rule::banned,  // a rounded probability is 0 or 1 from logits of 17 or 8 on, and its gradient passes 65504
      Input{"probs"}, false,
      "-t·log p - (1 - t)·log(1 - p) on probabilities; use bce_with_logits, which takes the logits and is exact");
  template <class T>
  MIXTAPE_HD T f(T p, T t) const {
    return -(t * bounded_log(p) + (T(1) - t) * bounded_log(T(1) - p));
  }
  template <class T>
  MIXTAPE_HD T dx(T p, T t) const {
    return (T(1) - t) * bounded_log_slope(T(1) - p) - t * bounded_log_slope(p);
  }
  template <class T>
  MIXTAPE_HD T dt(T p, T) const {
    return bounded_log(T(1) - p) - bounded_log(p);
  }
  static double oracle(double p, double t) { return t * std::log(1 / p) - (1 - t) * std::log1p(-p); }
  static constexpr double range[4] = {0.125, 0.875, 0, 1};
};
const Register<ElementLoss<BinaryCrossEntropy>> binary_cross_entropy_row;

}  // namespace

Tensor binary_cross_entropy(const Tensor& probs, const Tensor& targets, const LossOptions& options) {
  return autograd::apply(ElementLoss<BinaryCrossEntropy>{options}, {probs, targets})[0];
}

}  // namespace mixtape::ops
