// The verbs of the program. A verb is one file, cmd_<verb>.cpp, with one function that describes it to the parser;
// adding one is that file, a declaration here and a line in main.cpp's list.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "tools/command_line.h"
#include "tools/config/config.h"

namespace mixtape::draw {
class SvgChart;
}

namespace mixtape::tools {

/// What a verb gets: the command line to describe itself to, and where to leave an exit code. Its action returns for
/// success, throws Error for a failure, and sets `exit_code` for the few outcomes that are neither (an interrupted run
/// that wrote a good checkpoint).
struct Program {
  Verb root;
  int exit_code = 0;
};

void add_train(Program& program);
void add_evaluate(Program& program);
void add_predict(Program& program);
void add_tokenize(Program& program);
void add_config(Program& program);
void add_data(Program& program);
void add_bench(Program& program);
void add_inspect(Program& program);
void add_lint(Program& program);
void add_teach(Program& program);
void add_ops(Program& program);
void add_doctor(Program& program);
void add_export(Program& program);
void add_report(Program& program);

/// The verb "weights" of inspect.
void add_inspect_weights(Verb& inspect);
void add_inspect_memory(Verb& inspect);
void add_inspect_why_overflow(Verb& inspect);
void add_inspect_compare(Verb& inspect);
void add_inspect_speed(Verb& inspect);
void add_inspect_histogram(Verb& inspect);
void add_inspect_scale(Verb& inspect);
/// The verb "break" of teach.
void add_teach_break(Verb& teach);

/// Reads a configuration file with its `--set`s; its warnings go to stderr.
config::Config load_config(const std::string& file, const std::vector<std::string>& sets);

/// A configuration's warnings, and W-THREADS where it asks for more threads than there are cores for this process.
void note_warnings(const config::Config& config);

/// Adds `--set a.b=VALUE`, once for each value; they stay in the order of the command line.
void add_set_option(Verb& verb, std::vector<std::string>& sets);

/// Adds `--dtype off|bf16|fp16`: what a run's model computes in now; without it, what it was trained in.
void add_dtype_option(Verb& verb, std::string& dtype);

/// Writes to stdout at once. A full disk or a closed pipe is an Error of kind io, so that cut output never looks
/// complete.
void print(const std::string& text);

/// Writes a picture as an SVG file, which appears complete or not at all, and says so. Errors are kind io.
void write_picture(const std::string& path, const draw::SvgChart& chart);

/// A line (or several) for stderr, complete with the newline.
void note(std::string_view text);

/// "mixtape 0.1.0 …": version, compiler, instruction set, GEMM engine; the text of --version, ending in a newline.
std::string version_text();

}  // namespace mixtape::tools
