// mixtape report: a run directory as one page.
#pragma once

#include <string>

#include "tools/trainer/progress.h"

namespace mixtape::report {

struct ReportOptions {
  std::string output = {};  ///< "": DIR/report.html
  bool files_only = false;  ///< no look at a step: nothing that takes data, weights or time
};

/// Reads the run in `dir` and writes its page; one that stood there is replaced. Returns the path. Whatever of the run
/// is missing or damaged is told in the page. Throws E-RUN-DIR (model) when there is no run, kind io when the page
/// cannot be written.
std::string write_report(const std::string& dir, const ReportOptions& options, trainer::Progress& progress);

}  // namespace mixtape::report
