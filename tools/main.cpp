// The program: finds the verb, runs it, and turns every failure into lines on stderr and an exit code.
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <new>

#include "core/error.h"
#include "tools/commands.h"

namespace mixtape::tools {
namespace {

using Words = std::vector<std::string>;

/// Verbs that come later. Typed, they say so; no help text lists them.
const Words verbs_to_come = {"report",
                             "teach",
                             "lint",
                             "bench infer",
                             "inspect memory",
                             "inspect speed",
                             "inspect histogram",
                             "inspect scale",
                             "inspect why-overflow",
                             "inspect compare"};

void describe(Program& program) {
  for (const auto add : {add_train, add_evaluate, add_predict, add_tokenize, add_config, add_data, add_bench,
                         add_inspect, add_ops, add_doctor, add_export})
    add(program);
}

int run(const Words& arguments) {
  CommandLine line("mixtape", "Mixtape: fine-tunes text classifiers, with mixed precision that one can see.",
                   version_text, verbs_to_come);
  Program program{line.root()};
  try {
    describe(program);
    if (const std::string text = line.run(arguments); !text.empty()) print(text);
    return program.exit_code;
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

void add_set_option(Verb& verb, std::vector<std::string>& sets) {
  verb.option("--set", sets,
              {.doc = "change a key of the configuration: --set trainer.seed=7", .placeholder = "a.b=VALUE"});
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
