// The page: a run as one HTML file that needs no network and no script.
#pragma once

#include <string>

#include "tools/report/sections.h"

namespace mixtape::report {

/// The whole file. Equal arguments give equal bytes.
std::string page(const RunRecord& run, const RunConfig& config, const StepLook& look);

}  // namespace mixtape::report
