// mixtape bench step|infer|machine|ops|maths|tokenize: how fast this machine is with it, and how exact.
#include <charconv>
#include <memory>

#include "core/error.h"
#include "data/file.h"
#include "data/tweet_eval.h"
#include "tools/bench.h"
#include "tools/commands.h"
#include "tools/config/config.h"
#include "tools/trainer/setup.h"

namespace mixtape::tools {
namespace {

struct BenchOptions {
  std::string config, vocab, lengths, texts;
  std::vector<std::string> sets;
  StepBench step;
  bool no_floor = false;
  int64_t every = 101;
};

/// Without a file: BERT-base with random weights. The two required paths are never opened then.
config::Config load(const BenchOptions& options) {
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

void run_step(BenchOptions options) {
  config::Config config = load(options);
  trainer::take_from_pretrained(config);
  note_warnings(config);
  options.step.has_vocabulary = !options.config.empty();
  options.step.lengths = read_lengths(options.lengths);
  print(bench_step(config, options.step));
}

void run_tokenize(const BenchOptions& options) {
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

constexpr std::pair<int64_t, int64_t> any_count = {1, int64_t{1} << 20};

void add_common(Verb& verb, const std::shared_ptr<BenchOptions>& options) {
  verb.option("--config", options->config, {.doc = "configuration file; without it BERT-base, random weights"});
  add_set_option(verb, options->sets);
  verb.flag("--json", options->step.json, "one line of JSON");
}

void add_shape(Verb& verb, const std::shared_ptr<BenchOptions>& options) {
  verb.option("--batch", options->step.batch, {.doc = "texts in a batch", .shows_default = true, .range = any_count});
  verb.option("--seq", options->step.seq, {.doc = "tokens of a text", .shows_default = true, .range = any_count});
}

void add_whole(Verb& bench, const std::shared_ptr<BenchOptions>& options, bool infer) {
  Verb verb = bench.add(infer ? "infer" : "step", infer ? "forwards without tape and dropout, and where their time goes"
                                                        : "whole training steps, and where their time goes");
  add_common(verb, options);
  add_shape(verb, options);
  verb.option("--steps", options->step.steps, {.doc = "how often", .shows_default = true, .range = any_count});
  verb.option("--warmup", options->step.warmup,
              {.doc = "how often before, unmeasured", .shows_default = true, .range = {0, any_count.second}});
  verb.option("--lengths", options->lengths,
              {.doc = "lengths of the texts, one a line, taken in order and again from the first; --seq cuts them",
               .placeholder = "FILE"});
  verb.option("--composed", options->step.composed,
              {.doc = "these fused rows, separated by commas, run as the ops they stand for; without a value all",
               .placeholder = "[ROWS]",
               .bare = "all"});
  verb.flag("--no-floor", options->no_floor,
            "don't measure what the machine does at best, nor how far the step is from it");
  verb.action([options, infer] {
    options->step.infer = infer;
    options->step.floor = !options->no_floor;
    run_step(*options);
  });
}

}  // namespace

void add_bench(Program& program) {
  Verb verb = program.root.add("bench",
                               "how fast this machine is (steps, inference, its best, ops, tokenizing), and how exact");
  const auto options = std::make_shared<BenchOptions>();

  add_whole(verb, options, false);
  add_whole(verb, options, true);

  Verb machine = verb.add("machine", "matrix products and memory at their best: what the floor of a step is made of");
  machine.flag("--json", options->step.json, "one line of JSON");
  machine.action([options] { print(bench_machine(options->step.json)); });

  Verb ops = verb.add("ops", "single ops at BERT shapes");
  add_shape(ops, options);
  ops.flag("--json", options->step.json, "one line of JSON");
  ops.action([options] { print(bench_ops(options->step.batch, options->step.seq, options->step.json)); });

  Verb maths = verb.add("maths", "how far exp, log, tanh, erf and their like are from the truth");
  maths.option("--every", options->every,
               {.doc = "look at every N-th float only; 1 takes minutes", .shows_default = true, .range = any_count});
  maths.flag("--json", options->step.json, "one line of JSON");
  maths.action([options] { print(bench_maths(options->every, options->step.json)); });

  Verb tokenize = verb.add("tokenize", "texts a second on one core");
  add_common(tokenize, options);
  tokenize.option("--vocab", options->vocab,
                  {.doc = "instead of a configuration: a vocabulary", .placeholder = "FILE"});
  tokenize.option("FILE", options->texts, {.doc = "texts, one a line; without it the training texts of --config"});
  tokenize.action([options] { run_tokenize(*options); });
}

}  // namespace mixtape::tools
