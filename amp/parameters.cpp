#include "amp/parameters.h"

#include "optim/optimizer.h"

namespace mixtape::amp {

void store_parameters(const NamedTensors& parameters, const Policy& policy, DType low) {
  for (const auto& [name, tensor] : parameters) {
    if (!tensor.is_leaf() || tensor.dtype() == DType::f64) continue;
    const bool wide = !is_low(policy.storage) || (policy.keep_norms_f32 && optim::is_norm(name));
    tensor.store_as(wide ? DType::f32 : low);
    tensor.leaf().keeps_shadow = policy.storage != ParameterStorage::f32;
  }
}

optim::Rounding rounding_of(ParameterStorage storage) {
  switch (storage) {
    case ParameterStorage::bf16_stochastic: return optim::Rounding::stochastic;
    case ParameterStorage::bf16_kahan: return optim::Rounding::compensated;
    default: return optim::Rounding::nearest;
  }
}

}  // namespace mixtape::amp
