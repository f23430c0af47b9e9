// How names of checkpoint files map to parameter names.
#pragma once

#include <string>
#include <string_view>

namespace mixtape::models {

/// The parameter that a tensor of a file is meant for: "bert." stripped or added, "…LayerNorm.gamma|beta" as weight and
/// bias; "classifier.…" as it is. Only the LayerNorm names are rewritten: "layer_scale.gamma" stays itself.
std::string parameter_name(std::string_view file_name);

}  // namespace mixtape::models
