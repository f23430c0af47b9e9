#pragma once

#include "amp/policy.h"
#include "core/parameter.h"
#include "optim/rounding.h"

namespace mixtape::amp {

/// Brings a model's parameters into the form that `policy` keeps them in, with `low` as the 16-bit dtype; norms stay
/// f32 where it says so. Before an optimizer has seen them; weights that are loaded later are rounded or widened to
/// fit.
void store_parameters(const NamedTensors& parameters, const Policy& policy, DType low);
/// What an optimizer over them has to be told.
optim::Rounding rounding_of(ParameterStorage storage);

}  // namespace mixtape::amp
