// What one reading pass over the gradients of many parameters finds out. Nothing here writes.
#pragma once

#include <string>
#include <vector>

#include "core/kernels/basic.h"
#include "core/parameter.h"

namespace mixtape::optim {

struct GradientSurvey {
  int count = 0;       ///< parameters that have a gradient
  bool finite = true;  ///< every element, before and after its multiplier
  double norm = 0;     ///< 2-norm of all true gradients together, summed in f64; inf or NaN when they are not finite
  std::vector<std::string> nonfinite;  ///< the parameters whose gradients are not, in order
};

/// Reads gradients at most once: what a pass found stays valid until a gradient's bytes change. Multipliers may change
/// in between (clipping), that costs nothing.
class GradientReader {
 public:
  explicit GradientReader(NamedTensors parameters);
  const NamedTensors& parameters() const { return parameters_; }
  GradientSurvey read();
  /// Lets go of the gradients' bytes.
  void forget();

 private:
  struct Seen {
    Tensor raw;  // held, so that its identity cannot be taken by another tensor
    uint32_t version = 0;
    kernels::Census census;
  };
  NamedTensors parameters_;
  std::vector<Seen> seen_;
};

}  // namespace mixtape::optim
