// mixtape bench step|ops|tokenize: how fast this machine is with it.
#include <CLI/CLI.hpp>
#include <charconv>
#include <memory>

#include "core/error.h"
#include "data/file.h"
#include "data/tweet_eval.h"
#include "tools/bench.h"
#include "tools/commands.h"
#include "tools/config/config.h"

namespace mixtape::tools {
namespace {

struct Options {
  std::string config, vocab, lengths, texts;
  std::vector<std::string> sets;
  StepBench step;
};

/// Without a file: BERT-base with random weights. The two required paths are never opened then.
config::Config load(const Options& options) {
  if (!options.config.empty()) return config::load_config(options.config, options.sets);
  return config::parse_config(R"({"task": {"data_dir": "."}, "tokenizer": {"vocab": "vocab.txt"}})", "the defaults", "",
                              options.sets);
}

std::vector<int64_t> read_lengths(const std::string& path) {
  if (path.empty()) return {};
  const std::string text = data::read_file(path, ErrorKind::data, "E-DATA-FILE", uint64_t{1} << 26);
  std::vector<int64_t> lengths;
  size_t line = 0;
  for (const std::string_view entry : data::split_lines(text)) {
    ++line;
    int64_t length = 0;
    const auto [end, error] = std::from_chars(entry.data(), entry.data() + entry.size(), length);
    if (error != std::errc() || end != entry.data() + entry.size() || length < 1) {
      fail(ErrorKind::data, "E-DATA-LENGTH",
           message(data::at_line(path, line), ": expected a length of 1 or more, got ", data::quoted(entry)));
    }
    lengths.push_back(length);
  }
  if (lengths.empty()) fail(ErrorKind::data, "E-DATA-LENGTH", path + ": no lengths");
  return lengths;
}

void run_step(Options options) {
  const config::Config config = load(options);
  for (const std::string& warning : config.warnings) note(warning);
  options.step.has_vocabulary = !options.config.empty();
  options.step.lengths = read_lengths(options.lengths);
  print(bench_step(config, options.step));
}

void run_tokenize(const Options& options) {
  if (options.config.empty() && (options.vocab.empty() || options.texts.empty())) {
    fail(ErrorKind::config, "E-USAGE", "bench tokenize needs --config C, or --vocab FILE and the texts' FILE");
  }
  const config::Config config = load(options);
  const std::string vocab = options.vocab.empty() ? config.tokenizer.vocab : options.vocab;
  std::vector<std::string> texts;
  if (options.texts.empty()) {
    texts = data::read_tweet_eval(config.task.data_dir, "train").texts;
  } else {
    const std::string text = data::read_file(options.texts, ErrorKind::data, "E-DATA-FILE", uint64_t{1} << 30);
    for (const std::string_view line : data::split_lines(text)) texts.emplace_back(line);
  }
  if (texts.empty()) fail(ErrorKind::data, "E-DATA-EMPTY", options.texts + ": no texts");
  print(bench_tokenize(vocab, config.tokenizer.lowercase, config.tokenizer.max_length, texts, options.step.json));
}

void add_common(CLI::App& verb, const std::shared_ptr<Options>& options) {
  verb.add_option("--config", options->config, "configuration file; without it BERT-base, random weights");
  add_set_option(verb, options->sets);
  verb.add_flag("--json", options->step.json, "one line of JSON");
}

void add_shape(CLI::App& verb, const std::shared_ptr<Options>& options) {
  const auto count = CLI::Range(int64_t{1}, int64_t{1} << 20);
  verb.add_option("--batch", options->step.batch, "texts in a batch")->check(count)->capture_default_str();
  verb.add_option("--seq", options->step.seq, "tokens of a text")->check(count)->capture_default_str();
}

}  // namespace

void add_bench(Program& program) {
  CLI::App* verb = program.app.add_subcommand("bench", "how fast this machine is: steps, ops, tokenizing");
  verb->require_subcommand(1);
  const auto options = std::make_shared<Options>();

  CLI::App* step = verb->add_subcommand("step", "whole training steps, and where their time goes");
  add_common(*step, options);
  add_shape(*step, options);
  const auto count = CLI::Range(int64_t{1}, int64_t{1} << 20);
  step->add_option("--steps", options->step.steps, "measured steps")->check(count)->capture_default_str();
  step->add_option("--warmup", options->step.warmup, "steps before them")
      ->check(CLI::Range(int64_t{0}, int64_t{1} << 20))
      ->capture_default_str();
  step->add_option("--lengths", options->lengths, "lengths of the texts, one a line; --seq cuts them")
      ->type_name("FILE");
  step->callback([options] { run_step(*options); });

  CLI::App* ops = verb->add_subcommand("ops", "single ops at BERT shapes");
  add_shape(*ops, options);
  ops->add_flag("--json", options->step.json, "one line of JSON");
  ops->callback([options] { print(bench_ops(options->step.batch, options->step.seq, options->step.json)); });

  CLI::App* tokenize = verb->add_subcommand("tokenize", "texts a second on one core");
  add_common(*tokenize, options);
  tokenize->add_option("--vocab", options->vocab, "instead of a configuration: a vocabulary")->type_name("FILE");
  tokenize->add_option("FILE", options->texts, "texts, one a line; without it the training texts of --config");
  tokenize->callback([options] { run_tokenize(*options); });
}

}  // namespace mixtape::tools
