// What the tests of the scaler share.
#pragma once

#include "amp/grad_scaler.h"
#include "autograd/cast.h"
#include "core/factory.h"
#include "ops/ops.h"

namespace mixtape::tests {

inline Tensor leaf(const std::vector<double>& values) {
  return from(values, {static_cast<int64_t>(values.size())}).set_requires_grad();
}

// Σ w·x; the gradient is x. The product is made in `dtype`, with 4x, and the quarter comes in f32 behind it: so the
// scale enters `dtype` as scale/4, and scale·x leaves it as inf exactly where it is too large.
inline Tensor loss_of(const Tensor& w, std::vector<double> x, DType dtype = DType::f32) {
  for (double& value : x) value *= 4;
  const Tensor product = ops::mul(autograd::cast(w, dtype), from(x, w.shape(), dtype));
  return ops::mul(ops::sum(autograd::cast(product, DType::f32)), scalar(0.25));
}

inline amp::ScalerOptions static_scale(double scale) {
  amp::ScalerOptions options;
  options.scale.dynamic = false;
  options.scale.init = scale;
  return options;
}
inline amp::ScalerOptions stop_after(int64_t skips) {
  amp::ScalerOptions options;
  options.max_consecutive_skips = skips;
  return options;
}

inline optim::StepResult one_step(amp::GradScaler& scaler, optim::Optimizer& optimizer, const Tensor& loss) {
  autograd::backward(scaler.scale(loss));
  const optim::StepResult result = scaler.step(optimizer).get();
  scaler.update();
  return result;
}

}  // namespace mixtape::tests
