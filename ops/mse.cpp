#include "ops/losses.h"

namespace mixtape::ops {
namespace {

struct Mse {
  static constexpr OpInfo info = element_loss("mse",
                                              Rule::full,  // squares of 256 are more than a half can hold
                                              Input{"x"}, true, "(x - t)², averaged over all elements");
  template <class T>
  MIXTAPE_HD T f(T x, T t) const {
    return (x - t) * (x - t);
  }
  template <class T>
  MIXTAPE_HD T dx(T x, T t) const {
    return T(2) * (x - t);
  }
  template <class T>
  MIXTAPE_HD T dt(T x, T t) const {
    return T(2) * (t - x);
  }
  static Tensor dx_ops(const Tensor& x, const Tensor& t) {
    const Tensor distance = sub(x, t);
    return add(distance, distance);
  }
  static Tensor dt_ops(const Tensor& x, const Tensor& t) { return dx_ops(t, x); }
  static double oracle(double x, double t) { return std::pow(std::abs(t - x), 2.0); }
  static constexpr double range[4] = {-2, 2, -2, 2};
};
const Register<ElementLoss<Mse>> mse_row;

}  // namespace

Tensor mse(const Tensor& x, const Tensor& targets, const LossOptions& options) {
  return autograd::apply(ElementLoss<Mse>{options}, {x, targets})[0];
}

}  // namespace mixtape::ops
