// mixtape train CONFIG -s DIR: from a configuration to a run directory.
#include <CLI/CLI.hpp>
#include <memory>

#include "core/error.h"
#include "tools/commands.h"
#include "tools/config/config.h"
#include "tools/trainer/train.h"

namespace mixtape::tools {
namespace {

struct Options {
  std::string file, dir;
  std::vector<std::string> sets;
  bool force = false, quiet = false, verbose = false;
  bool recover = false, recover_with_changes = false, dry_run = false;
};

void refuse_what_is_to_come(const Options& options) {
  const char* option = options.recover_with_changes ? "--recover-with-changes"
                       : options.recover            ? "--recover"
                       : options.dry_run            ? "--dry-run"
                                                    : nullptr;
  if (option != nullptr) {
    fail(ErrorKind::config, "E-NOT-BUILT",
         message("mixtape train ", option, " is not built yet. nothing was started."));
  }
}

void train(const Options& options) {
  refuse_what_is_to_come(options);
  const config::Config config = config::load_config(options.file, options.sets);
  for (const std::string& warning : config.warnings) note(warning);
  trainer::Progress progress(options.quiet     ? trainer::Verbosity::quiet
                             : options.verbose ? trainer::Verbosity::verbose
                                               : trainer::Verbosity::normal);
  (void)trainer::train(config, options.dir, options.force, progress);
}

}  // namespace

void add_train(Program& program) {
  CLI::App* verb = program.app.add_subcommand("train", "fine-tune a classifier; everything lands in DIR");
  const auto options = std::make_shared<Options>();
  verb->add_option("CONFIG", options->file, "configuration file (JSON with comments)")->required();
  verb->add_option("-s,--run-dir", options->dir, "the run directory: new, or empty")->required()->type_name("DIR");
  verb->add_flag("--force", options->force, "rename a DIR that is not empty to DIR.bak-N; nothing is deleted");
  verb->add_flag("--recover", options->recover, "go on with the run in DIR (not built yet)");
  verb->add_flag("--recover-with-changes", options->recover_with_changes, "the same with other values (not built yet)");
  verb->add_flag("--dry-run", options->dry_run, "check everything, train nothing (not built yet)");
  add_set_option(*verb, options->sets);
  CLI::Option* quiet = verb->add_flag("-q,--quiet", options->quiet, "only warnings and errors");
  verb->add_flag("-v,--verbose", options->verbose, "more about what was read and written")->excludes(quiet);
  verb->callback([options] { train(*options); });
}

}  // namespace mixtape::tools
