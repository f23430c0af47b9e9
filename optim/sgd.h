#pragma once

#include "optim/optimizer.h"

namespace mixtape::optim {

struct SGDOptions {
  double lr = 1e-3;
  double momentum = 0;
  bool nesterov = false;
  double weight_decay = 0;  ///< added to the gradient, as an L2 penalty is
};

/// Stochastic gradient descent with momentum (Polyak, 1964) in the form b = momentum·b + g, p -= lr·b, or Nesterov's
/// p -= lr·(g + momentum·b) (Sutskever et al., 2013). State "momentum" in f32, only when momentum > 0.
class SGD final : public Optimizer {
 public:
  /// No decay on biases and normalisations. Throws E-OPTIM-SGD for options outside their ranges.
  explicit SGD(const NamedTensors& parameters, SGDOptions options = {});
  explicit SGD(std::vector<ParameterGroup> groups, SGDOptions options = {});

 private:
  void update(const Pass& pass) override;
  SGDOptions options_;
};

}  // namespace mixtape::optim
