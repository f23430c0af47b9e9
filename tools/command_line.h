// The command line: what verbs say of themselves, and the parser that is made from it. CLI11 stands behind it, in
// command_line.cpp alone: its header takes longer to compile than all verbs together.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace CLI {
class App;
class Option;
}  // namespace CLI

namespace mixtape::tools {

/// What an option takes. A name without a dash ("DIR") is an argument by position.
struct OptionRules {
  std::string_view doc;
  bool required = false;
  bool shows_default = false;              ///< the help tells the value that the target has now
  std::string_view placeholder = {};       ///< what the help calls the value; "" leaves it to the parser
  std::string_view bare = {};              ///< the value of the option without one; "": it must have one
  std::vector<std::string> words = {};     ///< the only values; empty: any
  std::pair<int64_t, int64_t> range = {};  ///< of a number, both ends included; {0, 0}: any
};

/// A verb or a group of verbs. A handle: copies describe the same verb. Targets must outlive the parsing.
class Verb {
 public:
  explicit Verb(CLI::App& app) : app_(&app) {}

  /// A verb below this one, which becomes a group: one of its verbs must follow.
  Verb add(const std::string& name, const std::string& doc);

  void option(const std::string& name, std::string& target, const OptionRules& rules);
  void option(const std::string& name, int64_t& target, const OptionRules& rules);
  /// May come several times, one value each; they stay in the order of the command line.
  void option(const std::string& name, std::vector<std::string>& target, const OptionRules& rules);
  /// `excludes` names flags of this verb that must not come with it.
  void flag(const std::string& name, bool& target, const std::string& doc,
            const std::vector<std::string>& excludes = {});
  /// What the verb does, once everything is parsed.
  void action(std::function<void()> work);

 private:
  template <class Target>
  CLI::Option* add_option(const std::string& name, Target& target, const OptionRules& rules);

  CLI::App* app_;
};

class CommandLine {
 public:
  /// `version` gives the text of --version.
  CommandLine(const std::string& name, const std::string& doc, std::function<std::string()> version);
  CommandLine(const CommandLine&) = delete;
  CommandLine& operator=(const CommandLine&) = delete;
  ~CommandLine();

  Verb root() { return Verb(*app_); }
  /// Parses and runs the verb's action. Returns the text that --help or --version ask for, else "". Throws E-USAGE
  /// (config) with the option or verb that was meant.
  std::string run(std::vector<std::string> arguments);

 private:
  void check_verb(const std::vector<std::string>& arguments) const;

  std::unique_ptr<CLI::App> app_;
  std::function<std::string()> version_;
};

}  // namespace mixtape::tools
