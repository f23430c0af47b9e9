// mixtape evaluate DIR: the metrics of the best model of a run, as JSON.
#include <CLI/CLI.hpp>
#include <memory>

#include "tools/commands.h"
#include "tools/trainer/saved_run.h"

namespace mixtape::tools {
namespace {

struct Options {
  std::string dir, split = "test", data_dir;
  bool quiet = false;
};

void evaluate(const Options& options) {
  trainer::Progress progress(options.quiet ? trainer::Verbosity::quiet : trainer::Verbosity::normal);
  const trainer::SavedRun run(options.dir, progress);
  const trainer::Metrics metrics = run.evaluate(options.split, options.data_dir, progress);
  trainer::Json out = trainer::Json::object().set("split", options.split);
  metrics.append_to(out, run.class_names());
  print(out.pretty());
}

}  // namespace

void add_evaluate(Program& program) {
  CLI::App* verb = program.app.add_subcommand("evaluate", "the metrics of a run's best model, as JSON");
  const auto options = std::make_shared<Options>();
  verb->add_option("DIR", options->dir, "the run directory")->required();
  verb->add_option("--split", options->split, "val or test")
      ->check(CLI::IsMember({"val", "test"}))
      ->capture_default_str();
  verb->add_option("--data-dir", options->data_dir, "another folder than the run's, with the same classes")
      ->type_name("D");
  verb->add_flag("-q,--quiet", options->quiet, "no progress");
  verb->callback([options] { evaluate(*options); });
}

}  // namespace mixtape::tools
