// A run that stops before its first step: everything is read and checked, nothing is written.
#pragma once

#include <string>

#include "tools/config/config.h"
#include "tools/trainer/progress.h"

namespace mixtape::trainer {

/// Does what `train` does before it makes the directory, and throws what it throws. Returns what would be trained, in
/// lines: data, model, precision, plan.
std::string dry_run(config::Config config, const std::string& dir, bool force, Progress& progress);

}  // namespace mixtape::trainer
