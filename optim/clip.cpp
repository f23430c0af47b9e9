#include "optim/clip.h"

#include <cmath>

namespace mixtape::optim {
namespace {

void check(double max_norm) {
  if (!(max_norm >= 0)) {
    fail(ErrorKind::config, "E-CLIP",
         message("clip_grad_norm: max_norm = ", max_norm, ": must be >= 0 (0 turns clipping off; a negative value ",
                 "would reverse every gradient)"));
  }
}

double clip(const NamedTensors& parameters, const GradientSurvey& found, double max_norm) {
  check(max_norm);
  const bool above = max_norm > 0 && found.finite && std::isfinite(found.norm) && found.norm > max_norm;
  if (!above) return found.norm;
  for (const auto& [name, tensor] : parameters) {
    if (tensor.is_leaf() && tensor.leaf().gradient) tensor.leaf().gradient.multiplier *= max_norm / found.norm;
  }
  return found.norm;
}

}  // namespace

GradientNorm clip_grad_norm(Optimizer& optimizer, double max_norm) {
  if (optimizer.on_device()) {
    check(max_norm);
    const Outcome found = optimizer.look();
    if (max_norm > 0) optimizer.clip(found, max_norm);
    return GradientNorm(found);
  }
  return clip(optimizer.parameters(), optimizer.survey(), max_norm);
}

double clip_grad_norm(const NamedTensors& parameters, double max_norm) {
  return clip(parameters, GradientReader(parameters).read(), max_norm);
}

}  // namespace mixtape::optim
