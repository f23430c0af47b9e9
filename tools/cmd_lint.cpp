// mixtape lint CONFIG: what is known to go wrong with it, before anything starts.
#include "core/error.h"
#include "tools/commands.h"
#include "tools/config/config.h"
#include "tools/trainer/json.h"
#include "tools/trainer/lint.h"
#include "tools/trainer/setup.h"

namespace mixtape::tools {
namespace {

struct LintOptions {
  std::string file;
  std::vector<std::string> sets;
  bool json = false;
};

void lint(const LintOptions& options) {
  config::Config config = load_config(options.file, options.sets);
  trainer::Progress progress(options.json ? trainer::Verbosity::quiet : trainer::Verbosity::normal);
  trainer::take_from_pretrained(config);
  const data::Tokenizer tokenizer = trainer::make_tokenizer(config.tokenizer);
  const std::vector<std::string> found = trainer::lint(config, trainer::read_task(config, tokenizer, progress));
  progress.clear();
  if (options.json) return print(trainer::Json::object().set("warnings", found).line() + "\n");
  for (const std::string& text : found) print(text + "\n");
  if (found.empty()) print("nothing that is known to go wrong\n");
}

}  // namespace

void add_lint(Program& program) {
  Verb verb = program.root.add("lint", "what is known to go wrong with a valid configuration");
  const auto options = std::make_shared<LintOptions>();
  verb.option("CONFIG", options->file, {.doc = "configuration file (JSON with comments)", .required = true});
  add_set_option(verb, options->sets);
  verb.flag("--json", options->json, "one line of JSON");
  verb.action([options] { lint(*options); });
}

}  // namespace mixtape::tools
