// Which tensor was the first that is not finite: asked when a loss is inf or NaN.
#pragma once

#include <functional>
#include <string>

#include "core/parameter.h"

namespace mixtape::trainer {

/// "parameter 'bert.….weight'" when a weight is not finite itself; else runs `forward` once more, under the modes of
/// the caller, and names the op and its place: "the output of linear in bert.encoder.layer.1.intermediate.dense". "" if
/// all is finite.
std::string first_nonfinite(const NamedTensors& parameters, const std::function<void()>& forward);

}  // namespace mixtape::trainer
