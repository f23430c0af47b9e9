// mixtape config show [CONFIG]: the resolved values with their origin, or the reference page.
#include <memory>

#include "core/error.h"
#include "tools/commands.h"
#include "tools/config/config.h"
#include "tools/config/show.h"

namespace mixtape::tools {
namespace {

struct Options {
  std::string file;
  std::vector<std::string> sets;
  bool json = false;
  bool markdown = false;
};

void show(const Options& options) {
  if (options.markdown) return print(config::reference_page());
  if (options.file.empty()) {
    if (!options.sets.empty())
      fail(ErrorKind::config, "E-USAGE", "--set changes a configuration: mixtape config show CONFIG --set …");
    return print(options.json ? config::show_json({}) : config::show_text({}));
  }
  const config::Config config = config::load_config(options.file, options.sets);
  for (const std::string& warning : config.warnings) note(warning);
  print(options.json ? config::show_json(config) : config::show_text(config));
}

}  // namespace

void add_config(Program& program) {
  Verb sub = program.root.add("config", "show what a configuration means")
                 .add("show", "the resolved values, each with its origin; without CONFIG the defaults");
  const auto options = std::make_shared<Options>();
  sub.option("CONFIG", options->file, {.doc = "configuration file (JSON with comments)"});
  add_set_option(sub, options->sets);
  sub.flag("--json", options->json, "as JSON: {\"config\", \"origins\"}");
  sub.flag("--markdown", options->markdown, "the page of all keys, docs/reference/config.md");
  sub.action([options] { show(*options); });
}

}  // namespace mixtape::tools
