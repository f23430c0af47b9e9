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

trainer::Json json_of(const trainer::LintWarning& warning) {
  return trainer::Json::object()
      .set("code", warning.code)
      .set("key", warning.key)
      .set("value", warning.value)
      .set("origin", warning.origin)
      .set("cause", warning.cause)
      .set("remedy", warning.remedy)
      .set("page", warning.page());
}

void lint(const LintOptions& options) {
  config::Config config = load_config(options.file, options.sets);
  trainer::Progress progress(options.json ? trainer::Verbosity::quiet : trainer::Verbosity::normal);
  trainer::take_from_pretrained(config);
  const data::Tokenizer tokenizer = trainer::make_tokenizer(config.tokenizer);
  const std::vector<trainer::LintWarning> found =
      trainer::lint(config, trainer::read_task(config, tokenizer, progress));
  progress.clear();
  if (options.json) {
    trainer::Json all = trainer::Json::array();
    for (const trainer::LintWarning& warning : found) all.push(json_of(warning));
    return print(trainer::Json::object().set("warnings", std::move(all)).line() + "\n");
  }
  for (const trainer::LintWarning& warning : found) print(warning.text() + "\n");
  if (found.empty()) print("nothing that is known to go wrong\n");
}

}  // namespace

void add_lint(Program& program) {
  Verb verb = program.root.add("lint", "what is known to go wrong with a valid configuration");
  const auto options = std::make_shared<LintOptions>();
  verb.option("CONFIG", options->file, {.doc = "configuration file (JSON with comments)", .required = true});
  add_set_option(verb, options->sets);
  verb.flag("--json", options->json,
            "one line of JSON: {\"warnings\": [{\"code\", \"key\", \"value\", \"origin\", \"cause\", \"remedy\", "
            "\"page\"}]}");
  verb.action([options] { lint(*options); });
}

}  // namespace mixtape::tools
