// inspect memory: what a training step of a configuration keeps in memory, and its peak.
#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "tools/config/config.h"
#include "tools/trainer/json.h"
#include "tools/trainer/progress.h"

namespace mixtape::inspect {

/// Of the step of a run that needs the most. All but the facts of the batch and the number of parameters in bytes.
struct MemoryPlan {
  int64_t rows = 0, longest = 0, tokens = 0;  ///< of the batch: texts, the longest in tokens, tokens without padding
  bool first_step = false;                    ///< it is the run's first, which finds no states of the optimizer
  int64_t parameters = 0;                     ///< numbers that are trained
  int64_t weights = 0, copies = 0, gradients = 0, optimizer = 0;
  std::map<std::string, int64_t> saved = {};      ///< for backward, by op
  int64_t forward = 0, backward = 0, update = 0;  ///< the most that was in use in each part of a step
  int64_t evaluation = 0;                         ///< and while a batch of the evaluation is looked at between steps

  int64_t all_saved() const;
  int64_t training_peak() const;
  int64_t peak() const;      ///< of the run: an evaluation may need more
  std::string text() const;  ///< a line for each, in MiB
  trainer::Json json() const;
};

/// Lays the batches of the run as its seed orders them, takes a step of the largest batch of its first step and one of
/// the largest batch of all later ones, and measures both. Sets the thread count of the configuration. Throws what the
/// readers of vocabulary, data and weights throw, and E-SCHEDULE (config) for a warm-up that is longer than the run.
MemoryPlan measure_memory(config::Config config, trainer::Progress& progress);

}  // namespace mixtape::inspect
