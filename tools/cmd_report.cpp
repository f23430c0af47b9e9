// mixtape report DIR: a run as one page, and as event files for TensorBoard.
#include <memory>

#include "tools/commands.h"
#include "tools/report/report.h"
#include "tools/report/run.h"
#include "tools/report/tensorboard.h"

namespace mixtape::tools {
namespace {

struct ReportVerbOptions {
  std::string dir, tensorboard;
  report::ReportOptions page;
  bool quiet = false;
};

void write(const ReportVerbOptions& options) {
  trainer::Progress progress(options.quiet ? trainer::Verbosity::quiet : trainer::Verbosity::normal);
  if (!options.tensorboard.empty()) {
    const report::RunRecord run = report::read_run(options.dir);
    for (const std::string& damage : run.damages) note("warning W-REPORT  " + damage);
    note("wrote " + report::write_tensorboard(run, options.tensorboard, progress));
    if (options.page.output.empty()) return;
  }
  const std::string path = report::write_report(options.dir, options.page, progress);
  progress.clear();
  note("wrote " + path);
}

}  // namespace

void add_report(Program& program) {
  Verb verb =
      program.root.add("report", "a run as one HTML page: curves, loss scale, ledger, memory, scores, configuration");
  const auto options = std::make_shared<ReportVerbOptions>();
  verb.option("DIR", options->dir, {.doc = "the run directory", .required = true});
  verb.option("-o,--output", options->page.output,
              {.doc = "write it there instead of DIR/report.html; an older one is replaced", .placeholder = "FILE"});
  verb.flag("--files-only", options->page.files_only,
            "only what the files of the run hold: no training step for ledger, memory and histograms");
  verb.option(
      "--tensorboard", options->tensorboard,
      {.doc = "event files in a folder of the run's name there; the page then only with -o", .placeholder = "LOGDIR"});
  verb.flag("-q,--quiet", options->quiet, "no progress");
  verb.action([options] { write(*options); });
}

}  // namespace mixtape::tools
