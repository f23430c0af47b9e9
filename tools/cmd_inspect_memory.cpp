// mixtape inspect memory CONFIG: what a training step of this configuration keeps in memory, and its peak.
#include <memory>

#include "tools/commands.h"
#include "tools/config/config.h"
#include "tools/inspect/memory.h"

namespace mixtape::tools {
namespace {

struct MemoryOptions {
  std::string file;
  std::vector<std::string> sets;
  bool json = false;
};

void memory(const MemoryOptions& options) {
  trainer::Progress progress(options.json ? trainer::Verbosity::quiet : trainer::Verbosity::normal);
  const inspect::MemoryPlan plan = inspect::measure_memory(load_config(options.file, options.sets), progress);
  progress.clear();
  print(options.json ? plan.json() + "\n" : plan.text());
}

}  // namespace

void add_inspect_memory(Verb& inspect) {
  Verb verb = inspect.add("memory", "what a training step keeps in memory, measured on the longest batch");
  const auto options = std::make_shared<MemoryOptions>();
  verb.option("CONFIG", options->file, {.doc = "configuration file (JSON with comments)", .required = true});
  add_set_option(verb, options->sets);
  verb.flag("--json", options->json, "as JSON, in bytes");
  verb.action([options] { memory(*options); });
}

}  // namespace mixtape::tools
