// mixtape evaluate DIR: the metrics of the best model of a run, as JSON.
#include <memory>

#include "tools/commands.h"
#include "tools/trainer/saved_run.h"

namespace mixtape::tools {
namespace {

struct EvaluateOptions {
  std::string dir, split = "test", data_dir, dtype;
  bool quiet = false;
};

void evaluate(const EvaluateOptions& options) {
  trainer::Progress progress(options.quiet ? trainer::Verbosity::quiet : trainer::Verbosity::normal);
  const trainer::SavedRun run(options.dir, options.dtype, progress);
  const trainer::Metrics metrics = run.evaluate(options.split, options.data_dir, progress);
  trainer::Json out = trainer::Json::object().set("split", options.split);
  metrics.append_to(out, run.class_names());
  print(out.pretty());
}

}  // namespace

void add_evaluate(Program& program) {
  Verb verb = program.root.add("evaluate", "the metrics of a run's best model, as JSON");
  const auto options = std::make_shared<EvaluateOptions>();
  verb.option("DIR", options->dir, {.doc = "the run directory", .required = true});
  verb.option("--split", options->split, {.doc = "val or test", .shows_default = true, .words = {"val", "test"}});
  verb.option("--data-dir", options->data_dir,
              {.doc = "another folder than the run's, with the same classes", .placeholder = "D"});
  add_dtype_option(verb, options->dtype);
  verb.flag("-q,--quiet", options->quiet, "no progress");
  verb.action([options] { evaluate(*options); });
}

}  // namespace mixtape::tools
