// Lint: what is known to go wrong with a configuration that is valid.
#pragma once

#include <string>
#include <vector>

#include "tools/config/config.h"
#include "tools/trainer/task.h"

namespace mixtape::trainer {

/// Complete warnings, "warning W-LINT-…  place key = value: cause. remedy", one for each trap that this run walks into;
/// docs/lint.md explains them. Reads nothing but what it is given. Throws E-POLICY… (config) as make_precision does.
std::vector<std::string> lint(const config::Config& config, const Task& task);

}  // namespace mixtape::trainer
