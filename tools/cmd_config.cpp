// mixtape config show|init|schema|explain: what a configuration means, and how one begins.
#include <filesystem>
#include <memory>
#include <span>

#include "core/error.h"
#include "data/file.h"
#include "tools/commands.h"
#include "tools/config/config.h"
#include "tools/config/describe.h"
#include "tools/config/show.h"
#include "tools/trainer/setup.h"

namespace mixtape::tools {
namespace {

struct ConfigOptions {
  std::string file;
  std::string key;
  std::vector<std::string> sets;
  bool json = false;
  bool markdown = false;
};

/// What a run would use: with the values that a model's directory decides, if it can be read here.
config::Config resolved(const ConfigOptions& options) {
  config::Config config = load_config(options.file, options.sets);
  std::error_code ignored;
  if (std::filesystem::exists(config.model.pretrained + "/config.json", ignored)) trainer::take_from_pretrained(config);
  return config;
}

void show(const ConfigOptions& options) {
  if (options.markdown) return print(config::reference_page());
  if (options.file.empty()) {
    if (!options.sets.empty())
      fail(ErrorKind::config, "E-USAGE", "--set changes a configuration: mixtape config show CONFIG --set …");
    return print(options.json ? config::show_json({}) : config::show_text({}));
  }
  const config::Config config = resolved(options);
  print(options.json ? config::show_json(config) : config::show_text(config));
}

void init(const std::string& path) {
  const std::string text = config::starting_file();
  if (path.empty()) return print(text);
  std::error_code ignored;
  if (std::filesystem::exists(std::filesystem::symlink_status(path, ignored))) {
    fail(ErrorKind::config, "E-CONFIG-EXISTS", path + ": this file exists and stays as it is; give another name");
  }
  data::OutputFile file(path);
  file.write(std::as_bytes(std::span(text)));
  file.commit();
  note("wrote " + path + ". next: put the paths of your data into it, then mixtape data check " + path);
}

/// One word is a configuration when it looks like a file, else a key.
void explain(ConfigOptions options) {
  std::error_code ignored;
  const bool file = options.file.find('/') != std::string::npos || options.file.ends_with(".json") ||
                    std::filesystem::is_regular_file(options.file, ignored);
  if (options.key.empty() && !file) {
    if (!options.sets.empty())
      fail(ErrorKind::config, "E-USAGE", "--set changes a configuration: mixtape config explain CONFIG KEY --set …");
    return print(config::explain(options.file, nullptr));
  }
  const config::Config config = resolved(options);
  print(config::explain(options.key, &config));
}

void add_show(Verb& group) {
  Verb sub = group.add("show", "the resolved values, each with its origin; without CONFIG the defaults");
  const auto options = std::make_shared<ConfigOptions>();
  sub.option("CONFIG", options->file, {.doc = "configuration file (JSON with comments)"});
  add_set_option(sub, options->sets);
  sub.flag("--json", options->json, "as JSON: {\"config\", \"origins\"}");
  sub.flag("--markdown", options->markdown, "the page of all keys, docs/reference/config.md");
  sub.action([options] { show(*options); });
}

void add_explain(Verb& group) {
  Verb sub = group.add("explain", "what a key takes and does; with CONFIG its value and where that comes from");
  const auto options = std::make_shared<ConfigOptions>();
  sub.option("KEY_OR_CONFIG", options->file,
             {.doc = "a key (trainer.seed, or seed), a section, or a configuration file", .required = true});
  sub.option("KEY", options->key, {.doc = "a key or a section, after a configuration; all without it"});
  add_set_option(sub, options->sets);
  sub.action([options] { explain(*options); });
}

}  // namespace

void add_config(Program& program) {
  Verb group = program.root.add("config", "what a configuration means, and one to start from");
  add_show(group);
  Verb init_verb = group.add("init", "a complete configuration with comments, to start from");
  const auto path = std::make_shared<std::string>();
  init_verb.option("-o,--output", *path, {.doc = "write it there; an existing file stays", .placeholder = "FILE"});
  init_verb.action([path] { init(*path); });
  group.add("schema", "the JSON Schema of a configuration, for editors").action([] { print(config::json_schema()); });
  add_explain(group);
}

}  // namespace mixtape::tools
