// mixtape train CONFIG -s DIR: from a configuration to a run directory, with its page.
#include <filesystem>
#include <memory>

#include "core/error.h"
#include "tools/commands.h"
#include "tools/config/config.h"
#include "tools/report/report.h"
#include "tools/trainer/dry_run.h"
#include "tools/trainer/train.h"

namespace mixtape::tools {
namespace {

struct TrainOptions {
  std::string file, dir;
  std::vector<std::string> sets;
  bool force = false, quiet = false, verbose = false;
  bool recover = false, recover_with_changes = false, dry_run = false;
};

void note_page(const std::string& dir, trainer::Progress& progress) {
  progress.note("the run as a page: " + report::write_report(dir, {.files_only = true}, progress));
}

std::string without_page(const Error& error, const std::string& dir) {
  return message(error.what(), "\n  nothing else of the run is missing; mixtape report ", dir, " makes the page");
}

/// The page is made from what the run left, after its last file. A disk that cannot take it is an error as at any other
/// file; room may come back, so it is asked twice.
void write_page(const std::string& dir, trainer::Progress& progress) {
  for (const bool last : {false, true}) {
    try {
      return note_page(dir, progress);
    } catch (const Error& error) {
      if (!last && error.code() == "E-IO-NOSPACE") continue;
      throw Error(error.kind(), error.code(), without_page(error, dir));
    }
  }
}

/// Of a run that ends with an error of its own, which counts for more.
void write_page_beside(const std::string& dir, trainer::Progress& progress) {
  try {
    note_page(dir, progress);
  } catch (const Error& error) {
    progress.warning("warning W-REPORT  " + without_page(error, dir));
  }
}

trainer::TrainResult train_in(const TrainOptions& options, const config::Config& config, trainer::Signals& signals,
                              trainer::Progress& progress) {
  try {
    return trainer::train(config, options.dir,
                          {.force = options.force,
                           .recover = options.recover || options.recover_with_changes,
                           .with_changes = options.recover_with_changes,
                           .signals = &signals},
                          progress);
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::diverged) write_page_beside(options.dir, progress);
    throw;
  }
}

int train(const TrainOptions& options) {
  // Before all else: reading and tokenizing can take a while, too.
  trainer::Signals& signals = trainer::Signals::of_process();
  const config::Config config = load_config(options.file, options.sets);
  trainer::Progress progress(options.quiet     ? trainer::Verbosity::quiet
                             : options.verbose ? trainer::Verbosity::verbose
                                               : trainer::Verbosity::normal);
  if (options.dry_run) {
    print(trainer::dry_run(config, options.dir, options.force, progress));
    return 0;
  }
  const trainer::TrainResult result = train_in(options, config, signals, progress);
  std::error_code ignored;  // a finished run that was killed before its page gets one
  const bool no_page = !std::filesystem::exists(options.dir + "/report.html", ignored);
  if (result.steps > 0 || (result.interrupted_by == 0 && no_page)) write_page(options.dir, progress);
  return result.interrupted_by == 0 ? 0 : 128 + result.interrupted_by;
}

}  // namespace

void add_train(Program& program) {
  Verb verb = program.root.add("train", "fine-tune a classifier; everything lands in DIR");
  const auto options = std::make_shared<TrainOptions>();
  verb.option("CONFIG", options->file, {.doc = "configuration file (JSON with comments)", .required = true});
  verb.option("-s,--run-dir", options->dir,
              {.doc = "the run directory: new, or empty", .required = true, .placeholder = "DIR"});
  verb.flag("--force", options->force, "rename a DIR that is not empty to DIR.bak-N; nothing is deleted");
  verb.flag("--recover", options->recover, "go on with the run in DIR after a stop or a crash, with the same bits",
            {"--force"});
  verb.flag("--recover-with-changes", options->recover_with_changes,
            "the same, also with other values of keys that change the trajectory", {"--force"});
  verb.flag("--dry-run", options->dry_run, "read and check everything, print the plan, write nothing",
            {"--recover", "--recover-with-changes"});
  add_set_option(verb, options->sets);
  verb.flag("-q,--quiet", options->quiet, "only warnings and errors");
  verb.flag("-v,--verbose", options->verbose, "more about what was read and written", {"--quiet"});
  verb.action([options, &exit_code = program.exit_code] { exit_code = train(*options); });
}

}  // namespace mixtape::tools
