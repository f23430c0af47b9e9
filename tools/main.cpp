// The program: finds the verb, runs it, and turns every failure into lines on stderr and an exit code.
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <new>
#include <span>

#include "core/error.h"
#include "core/kernels/parallel.h"
#include "core/machine.h"
#include "data/file.h"
#include "tools/commands.h"
#include "tools/svg.h"

namespace mixtape::tools {
namespace {

void describe(Program& program) {
  for (const auto add : {add_train, add_evaluate, add_predict, add_tokenize, add_config, add_data, add_bench,
                         add_inspect, add_lint, add_teach, add_ops, add_doctor, add_export, add_report})
    add(program);
}

/// Allocates nothing: memory may be what there is no more of.
void report(const char* code, const char* text) { std::fprintf(stderr, "error %s  %s\n", code, text); }

/// The last resort: an allocation that fails where nothing may be thrown, such as a library's noexcept function. What
/// is on the disk is as after a kill: the newest complete checkpoint.
[[noreturn]] void end_at_once() {
  try {
    if (const std::exception_ptr cause = std::current_exception()) std::rethrow_exception(cause);
  } catch (const std::bad_alloc&) {
    report("E-MEMORY", "out of memory");
    std::_Exit(static_cast<int>(ErrorKind::memory));
  } catch (...) {  // a fault of ours: leave a core
  }
  std::abort();
}

int run(int count, char** words) try {
  std::set_terminate(end_at_once);
  kernels::set_thread_count(0);  // OpenMP's own choice knows no cgroup
  CommandLine line("mixtape", "Mixtape: fine-tunes text classifiers, with mixed precision that one can see.",
                   version_text);
  Program program{line.root()};
  describe(program);
  const std::string text = line.run({words + std::min(count, 1), words + count});
  if (!text.empty()) print(text);
  return program.exit_code;
} catch (const Error& error) {
  if (error.code() == "E-CONFIG")  // a configuration's report names its codes line by line itself
    note(error.what());
  else
    report(error.code().c_str(), error.what());
  return error.exit_code();
} catch (const std::bad_alloc&) {
  report("E-MEMORY", "out of memory");
  return static_cast<int>(ErrorKind::memory);
} catch (const std::exception& error) {
  report("E-INTERNAL", error.what());
  std::fputs("  this is a fault in mixtape, please report it\n", stderr);
  return static_cast<int>(ErrorKind::internal);
}

}  // namespace

config::Config load_config(const std::string& file, const std::vector<std::string>& sets) {
  config::Config config = config::load_config(file, sets);
  note_warnings(config);
  return config;
}

void note_warnings(const config::Config& config) {
  for (const std::string& warning : config.warnings) note(warning);
  const int cores = usable_cores();
  if (config.threads <= cores) return;
  note(message("warning W-THREADS  threads = ", config.threads, " (", config.origin("threads").text(),
               "): this process may use ", cores, cores == 1 ? " core" : " cores",
               "; more threads than that wait for each other and make a step slower. 0 takes one for each core"));
}

void add_set_option(Verb& verb, std::vector<std::string>& sets) {
  verb.option("--set", sets,
              {.doc = "change a key of the configuration: --set trainer.seed=7", .placeholder = "a.b=VALUE"});
}

void add_dtype_option(Verb& verb, std::string& dtype) {
  verb.option(
      "--dtype", dtype,
      {.doc = "precision to compute in, instead of the run's own (amp.dtype)", .words = {"off", "bf16", "fp16"}});
}

void print(const std::string& text) {
  if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0) {
    fail(ErrorKind::io, "E-IO-STDOUT", std::string("writing to the standard output failed: ") + std::strerror(errno));
  }
}

void write_picture(const std::string& path, const SvgChart& chart) {
  data::OutputFile file(path);
  const std::string text = chart.text();
  file.write(std::as_bytes(std::span(text)));
  file.commit();
  note("wrote " + path);
}

void note(std::string_view text) {
  std::fwrite(text.data(), 1, text.size(), stderr);
  if (text.empty() || text.back() != '\n') std::fputc('\n', stderr);
}

}  // namespace mixtape::tools

int main(int argc, char** argv) { return mixtape::tools::run(argc, argv); }
