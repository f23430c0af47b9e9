// What `mixtape bench step` found, as a report or as a line of JSON.
#pragma once

#include <string>
#include <vector>

#include "tools/bench.h"
#include "tools/trainer/step_profile.h"

namespace mixtape::tools {

using trainer::ClassTimes;
using trainer::Profile;

/// What a step would take if it multiplied at the machine's best rate, moved the optimizer's bytes at that of the
/// triad, and all the rest were free. Rates per second.
struct Floor {
  double flops = 0, gemm_rate = 0;             ///< executed products, and their rate (of several dtypes: the mean)
  double optimizer_bytes = 0, triad_rate = 0;  ///< parameters and states in and out, gradients in, 16-bit copies out
  double optimizer_s = 0;                      ///< what the optimizer took
  double step_s = 0;                           ///< what the step took

  double products_s() const { return flops > 0 ? flops / gemm_rate : 0; }
  double bytes_s() const { return optimizer_bytes > 0 ? optimizer_bytes / triad_rate : 0; }
  double seconds() const { return products_s() + bytes_s(); }
  double optimizer_rate() const { return optimizer_s > 0 ? optimizer_bytes / optimizer_s : 0; }
};

struct StepFigures {
  std::string amp;
  std::vector<std::string> composed;  ///< fused rows that ran as the ops they stand for
  std::vector<double> seconds;        ///< of the measured steps
  double total_s = 0, flops = 0;
  int64_t tokens = 0, parameters = 0;
  int64_t saved_bytes = 0, peak_bytes = 0, peak_rss_bytes = 0;
  double dropout = 0, clip = 0;
  double loss = 0;                        ///< of the last step
  std::string losses_hash, weights_hash;  ///< of all steps; after the last one. XXH3
  bool weights_changed = false;
  std::vector<int64_t> system_allocations;  ///< new ones in each step, the warm-up's first
  double observer_checks = 0, check_s = 0;  ///< of a step, for an observer; of one that finds none

  /// The part of a step that goes to looking for an observer where there is none.
  double observer_share() const;
};

double median(std::vector<double> values);

/// `floor` may be null.
std::string step_text(const StepBench& options, const StepFigures& figures, const Profile& profile, const Floor* floor);
std::string step_json(const StepBench& options, const StepFigures& figures, const Profile& profile, const Floor* floor);

}  // namespace mixtape::tools
