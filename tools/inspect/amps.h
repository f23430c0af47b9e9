// The dtypes that a look compares: --amp off,bf16,fp16.
#pragma once

#include <string>
#include <vector>

#include "tools/config/config.h"

namespace mixtape::inspect {

/// Cuts "off,bf16" at its commas; fp32 is another name of off. Throws E-USAGE (config) for a word that is no amp.dtype,
/// or comes twice.
std::vector<std::string> parse_amps(const std::string& list);

/// The configuration with this amp.dtype, complete with what a model's directory decides.
config::Config amp_config(const std::string& file, std::vector<std::string> sets, const std::string& amp);

}  // namespace mixtape::inspect
