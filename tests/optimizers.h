// What the tests of the optimizers share.
#pragma once

#include <string>
#include <vector>

#include "core/factory.h"
#include "optim/optimizer.h"

namespace mixtape::tests {

inline Tensor parameter(const std::vector<double>& values, DType dtype = DType::f32) {
  return from(values, {static_cast<int64_t>(values.size())}, dtype).set_requires_grad();
}
inline void set_gradient(const Tensor& p, const std::vector<double>& values, double multiplier = 1) {
  p.leaf().gradient = {from(values, p.shape(), wide(p.dtype())), multiplier};
}
inline optim::StepResult step(optim::Optimizer& optimizer) { return optimizer.step().get(); }
inline double first(const Tensor& t) { return to_vector(t)[0]; }
inline Tensor state_of(const optim::Optimizer& optimizer, const std::string& name) {
  for (const NamedTensor& entry : optimizer.state()) {
    if (entry.name == name) return entry.tensor;
  }
  return {};
}

}  // namespace mixtape::tests
