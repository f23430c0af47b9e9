// A whole run: from a checked configuration to a run directory.
#pragma once

#include <string>

#include "tools/config/config.h"
#include "tools/trainer/progress.h"
#include "tools/trainer/signals.h"
#include "tools/trainer/trainer.h"

namespace mixtape::trainer {

struct TrainOptions {
  bool force = false;         ///< a directory that is not empty is renamed
  bool recover = false;       ///< go on with the run that is in the directory
  bool with_changes = false;  ///< even with other values than it began with
  Signals* signals = nullptr;
};

/// Reads everything, makes the directory (RunDir::create), writes config.json and run.json, and trains. Until the
/// directory is made nothing is written anywhere, and memory and disk are known to suffice (E-MEMORY, E-IO-NOSPACE).
///
/// With `recover`: nothing there, or no complete checkpoint yet, starts from the beginning and says so; a finished run
/// says so and changes nothing. Throws E-RECOVER-CHANGED (config) naming every key whose change would change the
/// trajectory, with its old and new value, unless `with_changes`; E-CHECKPOINT (model) naming the file when there are
/// checkpoints but none is complete.
TrainResult train(config::Config config, const std::string& dir, const TrainOptions& options, Progress& progress);

}  // namespace mixtape::trainer
