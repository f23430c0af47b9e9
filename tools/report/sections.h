// The sections of the page, as HTML: each from what was read of a run, and for each what says that there is nothing.
#pragma once

#include <string>

#include "tools/config/config.h"
#include "tools/report/run.h"
#include "tools/report/step_look.h"

namespace mixtape::report {

/// The configuration of a run, or why it cannot be read.
struct RunConfig {
  std::optional<config::Config> config;
  std::string fault;
};

std::string curves_section(const RunRecord& run, const RunConfig& config);
std::string scale_section(const RunRecord& run, const RunConfig& config);
std::string histogram_section(const StepLook& look);
std::string ledger_section(const StepLook& look);
std::string memory_section(const RunRecord& run, const StepLook& look);
std::string scores_section(const RunRecord& run);
std::string config_section(const RunRecord& run, const RunConfig& config);
std::string machine_section(const RunRecord& run);

}  // namespace mixtape::report
