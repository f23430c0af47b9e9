#pragma once

#include "optim/optimizer.h"

namespace mixtape::optim {

struct AdamWOptions {
  double lr = 1e-3;
  double beta1 = 0.9, beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0.01;  ///< of default_groups(); groups of one's own bring theirs
};

/// Adam with decoupled weight decay (Loshchilov and Hutter, "Decoupled weight decay regularization", 2019). States and
/// arithmetic in f32; decay and update meet in f32 and are rounded once to the parameter. Bias correction counts the
/// updates that each parameter really had. States: "exp_avg", "exp_avg_sq".
class AdamW final : public Optimizer {
 public:
  /// No decay on biases and normalisations. Throws E-OPTIM-ADAMW for options outside their ranges.
  explicit AdamW(const NamedTensors& parameters, AdamWOptions options = {});
  explicit AdamW(std::vector<ParameterGroup> groups, AdamWOptions options = {});

 private:
  void update(const Pass& pass) override;
  AdamWOptions options_;
};

}  // namespace mixtape::optim
