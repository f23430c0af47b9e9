#pragma once

#include "optim/optimizer.h"

namespace mixtape::optim {

/// Scales all gradients down together so that their global 2-norm is at most `max_norm` (Pascanu, Mikolov and Bengio,
/// 2013): only multipliers change, and only when the norm is above the limit. Returns the norm before that, of the
/// true, unscaled gradients. 0 turns clipping off; so does inf. A norm that is not finite changes nothing: whoever
/// steps will see it. On a device nothing waits but who reads the norm. Throws E-CLIP (kind config) for a negative or
/// NaN limit.
GradientNorm clip_grad_norm(Optimizer& optimizer, double max_norm);
/// The same over any parameters, those of several optimizers for instance; waits for a device.
double clip_grad_norm(const NamedTensors& parameters, double max_norm);

}  // namespace mixtape::optim
