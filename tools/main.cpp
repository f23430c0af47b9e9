// The program: finds the verb, runs it, and turns every failure into lines on stderr and an exit code.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <new>

#include "core/error.h"
#include "tools/commands.h"
#include "tools/config/fields.h"
#include "tools/config/suggest.h"

namespace mixtape::tools {
namespace {

using Words = std::vector<std::string>;

/// Verbs that come later. Typed, they say so; no help text lists them.
const Words& verbs_to_come() {
  static const Words verbs = {"config init",
                              "config schema",
                              "config explain",
                              "data",
                              "report",
                              "export",
                              "teach",
                              "lint",
                              "bench infer",
                              "inspect weights",
                              "inspect memory",
                              "inspect speed",
                              "inspect histogram",
                              "inspect scale",
                              "inspect why-overflow",
                              "inspect compare"};
  return verbs;
}

Words quoted(Words words) {
  for (std::string& word : words) word = "\"" + word + "\"";
  return words;
}

std::string did_you_mean(const std::string& word, const Words& known) {
  const Words near = config::nearest(word, known);
  return near.empty() ? "" : ". did you mean " + config::list_words(quoted(near)) + "?";
}

Words names_of(const CLI::App& app) {
  Words names;
  for (const CLI::App* verb : app.get_subcommands([](const CLI::App*) { return true; }))
    names.push_back(verb->get_name());
  return names;
}

/// The parser would only say that a verb is required.
void check_verb(const CLI::App& app, const Words& arguments) {
  const CLI::App* level = &app;
  std::string path;
  for (const std::string& word : arguments) {
    if (names_of(*level).empty() || word.empty() || word[0] == '-') return;
    path += (path.empty() ? "" : " ") + word;
    const Words known = names_of(*level);
    if (std::find(known.begin(), known.end(), word) == known.end()) {
      const Words& later = verbs_to_come();
      if (std::find(later.begin(), later.end(), path) != later.end()) {
        fail(ErrorKind::config, "E-NOT-BUILT", "mixtape " + path + " is not built yet. mixtape --help lists what is");
      }
      const std::string near = did_you_mean(word, known);
      fail(ErrorKind::config, "E-USAGE",
           "no such verb: " + path + (near.empty() ? ". mixtape --help lists them" : near));
    }
    level = level->get_subcommand(word);
  }
}

/// What the parser complains about, and the option that was meant.
std::string usage_text(const CLI::App& app, const CLI::ParseError& error) {
  const CLI::App* verb = &app;
  while (!verb->get_subcommands().empty()) verb = verb->get_subcommands().front();
  std::string text = error.what();
  const Words verbs = names_of(*verb);
  if (!verbs.empty() && dynamic_cast<const CLI::RequiredError*>(&error) != nullptr) {
    text = "a verb must follow: " + config::list_words(verbs);
  }
  if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr) {
    Words options;
    for (const CLI::Option* option : verb->get_options()) {
      for (const std::string& name : option->get_lnames()) options.push_back("--" + name);
    }
    for (const std::string& extra : app.remaining(true)) {
      const std::string name = extra.substr(0, extra.find('='));
      if (name.substr(0, 2) == "--") text += did_you_mean(name, options);
    }
  }
  std::string path = verb->get_name();
  for (const CLI::App* outer = verb->get_parent(); outer != nullptr; outer = outer->get_parent())
    path = outer->get_name() + " " + path;
  return text + "\n  " + path + " --help shows what it takes";
}

void describe(Program& program) {
  program.app.set_version_flag("--version", version_text, "version, compiler, instruction set, matrix products");
  program.app.require_subcommand(1);
  for (const auto add :
       {add_train, add_evaluate, add_predict, add_tokenize, add_config, add_bench, add_inspect, add_ops, add_doctor})
    add(program);
}

int parse_and_run(Program& program, Words arguments) {
  check_verb(program.app, arguments);
  std::reverse(arguments.begin(), arguments.end());  // the order that the parser wants
  try {
    program.app.parse(std::move(arguments));
  } catch (const CLI::CallForVersion&) {
    print(version_text());
  } catch (const CLI::CallForHelp&) {
    print(program.app.help());
  } catch (const CLI::ParseError& error) {
    fail(ErrorKind::config, "E-USAGE", usage_text(program.app, error));
  }
  return program.exit_code;
}

int run(const Words& arguments) {
  CLI::App app("Mixtape: fine-tunes text classifiers, with mixed precision that one can see.", "mixtape");
  Program program{app};
  try {
    describe(program);
    return parse_and_run(program, arguments);
  } catch (const Error& error) {
    // A configuration's report names its codes line by line itself.
    note(error.code() == "E-CONFIG" ? error.what() : "error " + error.code() + "  " + error.what());
    return error.exit_code();
  } catch (const std::bad_alloc&) {
    note("error E-MEMORY  out of memory");
    return static_cast<int>(ErrorKind::memory);
  } catch (const std::exception& error) {
    note(std::string("error E-INTERNAL  ") + error.what() + "\n  this is a fault in mixtape, please report it");
    return static_cast<int>(ErrorKind::internal);
  }
}

}  // namespace

void add_set_option(CLI::App& verb, std::vector<std::string>& sets) {
  verb.add_option("--set", sets, "change a key of the configuration: --set trainer.seed=7")
      ->type_name("a.b=VALUE")
      ->type_size(1)
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
}

void print(const std::string& text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0) {
    fail(ErrorKind::io, "E-IO-STDOUT", std::string("writing to the standard output failed: ") + std::strerror(errno));
  }
}

void note(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stderr);
  if (text.empty() || text.back() != '\n') std::fputc('\n', stderr);
}

}  // namespace mixtape::tools

int main(int argc, char** argv) { return mixtape::tools::run({argv + std::min(argc, 1), argv + argc}); }
