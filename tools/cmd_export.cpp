// mixtape export DIR OUT: the best model of a run as a Hugging Face directory.
#include <memory>

#include "tools/commands.h"
#include "tools/trainer/export.h"

namespace mixtape::tools {
namespace {

struct ExportOptions {
  std::string dir, out;
  bool quiet = false;
};

}  // namespace

void add_export(Program& program) {
  Verb verb = program.root.add("export", "a run's best model as a Hugging Face directory");
  const auto options = std::make_shared<ExportOptions>();
  verb.option("DIR", options->dir, {.doc = "the run directory, or its best/", .required = true});
  verb.option("OUT", options->out, {.doc = "a new or empty directory", .required = true});
  verb.flag("-q,--quiet", options->quiet, "no progress");
  verb.action([options] {
    trainer::Progress progress(options->quiet ? trainer::Verbosity::quiet : trainer::Verbosity::normal);
    trainer::export_model(options->dir, options->out, progress);
  });
}

}  // namespace mixtape::tools
