#include "tools/report/report.h"

#include <span>

#include "core/error.h"
#include "data/file.h"
#include "tools/report/page.h"

namespace mixtape::report {
namespace {

RunConfig read_config(const std::string& dir) {
  try {
    return {.config = config::load_config(dir + "/config.json", {}), .fault = ""};
  } catch (const Error& error) {
    return {.config = std::nullopt, .fault = error.what()};
  }
}

StepLook look_at(const RunRecord& run, const RunConfig& config, const ReportOptions& options,
                 trainer::Progress& progress) {
  constexpr const char* how = "it takes a training step of the run's configuration, which mixtape report DIR runs";
  StepLook look;
  if (config.config && !options.files_only) look = look_at_step(run, *config.config, progress);
  const std::string why = options.files_only ? how : "without the configuration there is no step to look at";
  for (std::string* reason : {&look.no_ledger, &look.no_memory, &look.no_histograms})
    if (reason->empty()) *reason = why;
  return look;
}

}  // namespace

std::string write_report(const std::string& dir, const ReportOptions& options, trainer::Progress& progress) {
  const RunRecord run = read_run(dir);
  const RunConfig config = read_config(run.dir);
  const std::string html = page(run, config, look_at(run, config, options, progress));
  const std::string path = options.output.empty() ? run.dir + "/report.html" : options.output;
  data::OutputFile file(path);
  file.write(std::as_bytes(std::span(html)));
  file.commit();
  return path;
}

}  // namespace mixtape::report
