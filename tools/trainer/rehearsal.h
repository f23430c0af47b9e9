// A rehearsal: whether the precision policy works with this model, before anything is written.
#pragma once

#include "models/classifier.h"
#include "tools/config/config.h"
#include "tools/trainer/progress.h"

namespace mixtape::trainer {

/// Runs the loss of one text of two tokens under the policy of `amp`. Throws E-POLICY-MODEL (config) where an op of the
/// model refuses its rule, or the loss would not be f32; warns of overrides for ops that the model never calls.
void rehearse(const config::Config& config, const models::BertClassifier& model, Progress& progress);

}  // namespace mixtape::trainer
