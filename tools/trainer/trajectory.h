// Trajectory: what decides the weights that a run ends with. A run goes on only where this is as it was.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "tools/config/config.h"

namespace mixtape::trainer {

/// Every key whose value changes the trajectory, with its value as JSON. Of files the content counts, not the place: a
/// path stands as the hash of what lies there.
using Trajectory = std::vector<std::pair<std::string, std::string>>;

/// `start_weights` is the hash of the weights that the run starts from: what model.pretrained means.
Trajectory trajectory_of(const config::Config& config, const std::string& start_weights);

/// XXH3-128 of keys and values.
std::string hash_of(const Trajectory& trajectory);

/// A key that is not as it was; "absent" where one side has no such key.
struct Change {
  std::string key, before, now;
};
std::vector<Change> changes_between(const Trajectory& before, const Trajectory& now);

/// A line for each: "  optimizer.learning_rate: 2e-05 -> 1e-06".
std::string text_of(const std::vector<Change>& changes);

}  // namespace mixtape::trainer
