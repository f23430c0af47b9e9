#include "tools/command_line.h"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "core/error.h"
#include "tools/config/suggest.h"

namespace mixtape::tools {
namespace {

using Words = std::vector<std::string>;

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

/// The parser keeps what an option excludes in a set of pointers: their order would be that of the heap.
class Help : public CLI::Formatter {
 public:
  std::string make_option_opts(const CLI::Option* option) const override {
    std::string text = CLI::Formatter::make_option_opts(option);
    Words others;
    for (const CLI::Option* other : option->get_excludes()) others.push_back(other->get_name());
    if (others.empty()) return text;
    std::sort(others.begin(), others.end());
    const std::string label = " " + get_label("Excludes") + ":";
    text.resize(text.rfind(label) + label.size());
    for (const std::string& other : others) text += " " + other;
    return text;
  }
};

}  // namespace

Verb Verb::add(const std::string& name, const std::string& doc) {
  app_->require_subcommand(1);
  return Verb(*app_->add_subcommand(name, doc));
}

template <class Target>
CLI::Option* Verb::add_option(const std::string& name, Target& target, const OptionRules& rules) {
  CLI::Option* option = app_->add_option(name, target, std::string(rules.doc))->required(rules.required);
  if (!rules.placeholder.empty()) option->type_name(std::string(rules.placeholder));
  if (!rules.words.empty()) option->check(CLI::IsMember(rules.words));
  if (rules.range != std::pair<int64_t, int64_t>()) option->check(CLI::Range(rules.range.first, rules.range.second));
  if (rules.shows_default) option->capture_default_str();
  if (!rules.bare.empty()) option->expected(0, 1)->default_str(std::string(rules.bare));
  return option;
}

void Verb::option(const std::string& name, std::string& target, const OptionRules& rules) {
  add_option(name, target, rules);
}

void Verb::option(const std::string& name, int64_t& target, const OptionRules& rules) {
  add_option(name, target, rules);
}

void Verb::option(const std::string& name, std::vector<std::string>& target, const OptionRules& rules) {
  add_option(name, target, rules)
      ->type_size(1)
      ->allow_extra_args(false)
      ->multi_option_policy(CLI::MultiOptionPolicy::TakeAll);
}

void Verb::flag(const std::string& name, bool& target, const std::string& doc, const Words& excludes) {
  CLI::Option* flag = app_->add_flag(name, target, doc);
  for (const std::string& other : excludes) flag->excludes(app_->get_option(other));
}

void Verb::action(std::function<void()> work) { app_->callback(std::move(work)); }

CommandLine::CommandLine(const std::string& name, const std::string& doc, std::function<std::string()> version)
    : app_(std::make_unique<CLI::App>(doc, name)), version_(std::move(version)) {
  app_->formatter(std::make_shared<Help>());  // of the verbs, too
  app_->set_version_flag("--version", version_, "version, compiler, instruction set, matrix products");
}

CommandLine::~CommandLine() = default;

/// The parser would only say that a verb is required.
void CommandLine::check_verb(const Words& arguments) const {
  const CLI::App* level = app_.get();
  std::string path;
  for (const std::string& word : arguments) {
    const Words known = names_of(*level);
    if (known.empty() || word.empty() || word[0] == '-') return;
    path += (path.empty() ? "" : " ") + word;
    if (std::find(known.begin(), known.end(), word) == known.end()) {
      const std::string near = did_you_mean(word, known);
      fail(ErrorKind::config, "E-USAGE",
           "no such verb: " + path + (near.empty() ? ". mixtape --help lists them" : near));
    }
    level = level->get_subcommand(word);
  }
}

std::string CommandLine::run(Words arguments) {
  check_verb(arguments);
  for (std::string& word : arguments) {
    if (word == "-inf" || word == "-nan") word.insert(0, 1, ' ');  // numbers, as -1 is, where the parser sees options
  }
  std::reverse(arguments.begin(), arguments.end());  // the order that the parser wants
  try {
    app_->parse(std::move(arguments));
  } catch (const CLI::CallForVersion&) {
    return version_();
  } catch (const CLI::CallForHelp&) {
    return app_->help();
  } catch (const CLI::ParseError& error) {
    fail(ErrorKind::config, "E-USAGE", usage_text(*app_, error));
  }
  return "";
}

}  // namespace mixtape::tools
