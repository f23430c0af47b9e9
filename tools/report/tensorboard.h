// A run for TensorBoard: the scalars of its log, the weights of its checkpoints.
#pragma once

#include <string>

#include "tools/report/run.h"
#include "tools/trainer/progress.h"

namespace mixtape::report {

/// Writes LOGDIR/NAME/events.out.tfevents.0000000000.mixtape, NAME being the run's; one that stood there is replaced,
/// so that a run never has two. Scalars at the steps of the log: train/loss, train/grad_norm, train/learning_rate,
/// train/loss_scale, train/skipped (so far), train/tokens_per_second, where it is known train/lost_updates; loss,
/// accuracy and macro_f1 of val and test. Histograms: every tensor of every checkpoint that is whole. Returns the path.
///
/// The log has no times of day: the last event gets that of the log's last change, the others stand before it by
/// the seconds of training between. Throws kind io when nothing can be written there.
std::string write_tensorboard(const RunRecord& run, const std::string& logdir, trainer::Progress& progress);

}  // namespace mixtape::report
