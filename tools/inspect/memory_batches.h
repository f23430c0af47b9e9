// Which batches of a run need the most memory: the order of the data is a pure function of seed and epoch, so all of
// them are known before the first is made.
#pragma once

#include <cstdint>
#include <vector>

#include "data/batch.h"
#include "tools/config/config.h"

namespace mixtape::inspect {

using BatchRows = std::vector<int64_t>;  ///< numbers of texts

/// The largest batches of some steps. The first of a step's batches finds no gradients, those that are accumulated
/// after it do.
struct StepBatches {
  BatchRows first, later;  ///< later: empty without accumulation
  bool operator==(const StepBatches&) const = default;
};

/// The largest batches of a run, apart for its first step, which finds no states of the optimizer.
struct RunBatches {
  StepBatches first_step;
  /// Of all later steps: those with the most places for tokens and, where these are others, those with the most pairs
  /// of places, which is what attention costs where it is composed. Empty in a run of one step.
  std::vector<StepBatches> later_steps;
};

/// Epochs that are looked through at most.
inline constexpr int64_t most_epochs = 200;

/// Of the run of this configuration over `texts`, laid as `collate` says. Throws E-SCHEDULE (config) for a warm-up that
/// is longer than the run.
RunBatches largest_batches(const config::Config& config, const data::EncodedTexts& texts,
                           const data::CollateOptions& collate);

/// Of these batches the one with the most places for tokens.
BatchRows largest_batch(const data::BatchPlan& batches, const data::EncodedTexts& texts,
                        const data::CollateOptions& collate);

}  // namespace mixtape::inspect
