// A whole run: from a checked configuration to a run directory.
#pragma once

#include <string>

#include "tools/config/config.h"
#include "tools/trainer/progress.h"
#include "tools/trainer/trainer.h"

namespace mixtape::trainer {

/// Reads everything, makes the directory (RunDir::create), writes config.json and run.json, and trains. Until the
/// directory is made nothing is written anywhere.
TrainResult train(config::Config config, const std::string& dir, bool force, Progress& progress);

}  // namespace mixtape::trainer
