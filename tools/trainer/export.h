// Handing a trained model on: best/ of a run, checked and copied.
#pragma once

#include <string>

#include "tools/trainer/progress.h"

namespace mixtape::trainer {

/// Copies the model of the run directory `dir` (or of a directory like its best/) to `out`, which appears complete or
/// not at all, and notes what transformers loads it as. The model is loaded first: one that cannot be is not handed on.
/// Throws E-RUN-DIR (model) when `dir` holds no model of ours, E-IO-DIR (io) when `out` is a file or not empty.
void export_model(const std::string& dir, const std::string& out, Progress& progress);

}  // namespace mixtape::trainer
