// mixtape teach bits | formats | swallow | accumulate | softmax | layernorm | quiz: lessons that need no model. The
// lessons themselves are a library, tools/teach.
#include <cstdint>
#include <memory>
#include <optional>

#include "amp/scale_state.h"
#include "core/error.h"
#include "tools/commands.h"
#include "tools/lines.h"
#include "tools/teach/bits.h"
#include "tools/teach/formats.h"
#include "tools/teach/layernorm.h"
#include "tools/teach/quiz.h"
#include "tools/teach/softmax.h"
#include "tools/teach_pictures.h"

namespace mixtape::tools {
namespace {

/// What all lessons have. Numbers come as text, so that 2^-14 is one.
struct TeachOptions {
  std::string dtype = "fp16", formats = "fp32,fp16,bf16", svg;
  int64_t seed = 42;
  bool json = false;
};

void add_json(Verb& verb, TeachOptions& options, const std::string& members) {
  verb.flag("--json", options.json, "as one JSON document: {" + members + "}");
}
void add_svg(Verb& verb, TeachOptions& options, std::string_view what) {
  verb.option("--svg", options.svg, {.doc = what, .placeholder = "FILE"});
}
void add_seed(Verb& verb, TeachOptions& options) {
  verb.option("--seed", options.seed, {.doc = "of what is drawn", .shows_default = true, .range = {0, INT64_MAX}});
}
void add_formats(Verb& verb, TeachOptions& options) {
  verb.option("--formats", options.formats,
              {.doc = "which, with commas between: fp32, fp16, bf16", .shows_default = true, .placeholder = "LIST"});
}
void add_format(Verb& verb, TeachOptions& options, std::string_view which) {
  verb.option("--dtype", options.dtype, {.doc = which, .shows_default = true, .placeholder = "FORMAT"});
}

void show(const TeachOptions& options, const std::string& text, const trainer::Json& json) {
  print(options.json ? json.pretty() : text);
}

void add_bits(Verb& group) {
  Verb verb = group.add("bits", "a number in each format: its bits, its value, the rounding error");
  struct Options : TeachOptions {
    std::string value, pattern_of;
    bool neighbours = false;
  };
  const auto options = std::make_shared<Options>();
  verb.option("VALUE", options->value,
              {.doc = "0.1, -inf, nan, 2^-24, \"fp16(255.8)^2\" (+ - * / ^, log, exp, sqrt, tanh, sigmoid, fp32, fp16, "
                      "bf16), or a bit pattern, 0x2E66",
               .required = true});
  add_formats(verb, *options);
  verb.option("--of", options->pattern_of,
              {.doc = "the format that a bit pattern is of, where --formats has several", .placeholder = "FORMAT"});
  verb.flag("--neighbours", options->neighbours, "also the numbers of the format on both sides");
  add_json(verb, *options, "\"text\", \"value\", \"formats\"");
  verb.action([options] {
    const std::vector<teach::Format> formats = teach::parse_formats(options->formats);
    std::optional<teach::Format> pattern_of;
    if (!options->pattern_of.empty())
      pattern_of = teach::parse_format(options->pattern_of);
    else if (formats.size() == 1)
      pattern_of = formats[0];
    const teach::Number number = teach::parse_number(options->value, pattern_of);
    const std::vector<teach::BitsRow> rows = teach::bits(number, formats);
    show(*options, bits_text(rows, options->neighbours), bits_json(number, rows));
  });
}

void add_formats_verb(Verb& group) {
  Verb verb = group.add("formats", "what each format can hold, and which gradients survive under a loss scale");
  struct Options : TeachOptions {
    std::string scale;
  };
  const auto options = std::make_shared<Options>();
  add_formats(verb, *options);
  verb.option("--scale", options->scale, {.doc = "a loss scale: 65536, 2^16", .placeholder = "NUMBER"});
  add_svg(verb, *options, "draw the ranges there");
  add_json(verb, *options, "\"formats\", and \"scale\" where one is given");
  verb.action([options] {
    const std::vector<teach::Format> formats = teach::parse_formats(options->formats);
    std::optional<double> scale;
    if (!options->scale.empty()) {
      scale = teach::parse_finite("--scale", options->scale);
      amp::check({.dynamic = false, .init = *scale});
    }
    show(*options, formats_text(formats, scale), formats_json(formats, scale));
    if (!options->svg.empty()) write_picture(options->svg, teach_picture(formats, scale));
  });
}

void add_swallow(Verb& group) {
  Verb verb = group.add("swallow", "updates that 16-bit weights lose, and an fp32 master keeps");
  struct Options : TeachOptions {
    std::string weight = "1", update = "2e-5";
    int64_t steps = 100;
  };
  const auto options = std::make_shared<Options>();
  add_format(verb, *options, "what the weight is held in");
  verb.option("--weight", options->weight, {.doc = "the start", .shows_default = true, .placeholder = "NUMBER"});
  verb.option("--update", options->update,
              {.doc = "what each step adds", .shows_default = true, .placeholder = "NUMBER"});
  verb.option("--steps", options->steps, {.doc = "how many", .shows_default = true, .range = {1, 100'000}});
  add_svg(verb, *options, "draw the weight against the steps there");
  add_json(verb, *options, "\"dtype\", \"weight\", \"update\", \"steps\", \"low\", \"master\", …");
  verb.action([options] {
    teach::SwallowOptions lesson;
    const teach::Format format = teach::parse_format(options->dtype);
    lesson.dtype = format.dtype;
    lesson.weight = teach::parse_finite("--weight", options->weight, format);
    lesson.update = teach::parse_finite("--update", options->update);
    lesson.steps = options->steps;
    const teach::Swallow result = teach::swallow(lesson);
    show(*options, swallow_text(result), swallow_json(result));
    if (!options->svg.empty()) write_picture(options->svg, teach_picture(result));
  });
}

void add_accumulate(Verb& group) {
  Verb verb = group.add("accumulate", "one sum, added up in several ways");
  struct Options : TeachOptions {
    std::string value = "1";
    int64_t n = 4096;
    bool random = false;
  };
  const auto options = std::make_shared<Options>();
  add_format(verb, *options, "what the terms are held in");
  verb.option("--n", options->n, {.doc = "how many terms", .shows_default = true, .range = {1, 20'000'000}});
  verb.option("--value", options->value, {.doc = "each term", .shows_default = true, .placeholder = "NUMBER"});
  verb.flag("--random", options->random, "terms drawn from 0 to twice the value instead");
  add_seed(verb, *options);
  add_svg(verb, *options, "draw the sums against the number of terms there");
  add_json(verb, *options, "\"dtype\", \"n\", \"value\", \"exact\", \"methods\", …");
  verb.action([options] {
    teach::AccumulateOptions lesson;
    const teach::Format format = teach::parse_format(options->dtype);
    lesson.dtype = format.dtype;
    lesson.n = options->n;
    lesson.random = options->random;
    lesson.value = teach::parse_finite("--value", options->value, format);
    // Twice the value is the largest that is drawn.
    if (lesson.random) (void)teach::parse_finite("twice --value", "2*(" + options->value + ")", format);
    lesson.seed = static_cast<uint64_t>(options->seed);
    const teach::Accumulate result = teach::accumulate(lesson);
    show(*options, accumulate_text(result), accumulate_json(result));
    if (!options->svg.empty()) write_picture(options->svg, teach_picture(result));
  });
}

void add_softmax(Verb& group) {
  Verb verb = group.add("softmax", "the first step of a softmax that 16 bits cannot hold");
  struct Options : TeachOptions {
    std::string scores = "-8,2,12", spread = "0.1";
    int64_t n = 4096;
  };
  const auto options = std::make_shared<Options>();
  add_format(verb, *options, "fp16 or bf16");
  verb.option("--scores", options->scores,
              {.doc = "with commas between (--scores=-8,2,12)", .shows_default = true, .placeholder = "LIST"});
  verb.option("--n", options->n, {.doc = "scores of the long row", .shows_default = true, .range = {2, 60'000}});
  verb.option("--spread", options->spread,
              {.doc = "their standard deviation", .shows_default = true, .placeholder = "NUMBER"});
  add_seed(verb, *options);
  add_json(verb, *options, "\"seed\", \"dtype\", \"lessons\"");
  verb.action([options] {
    teach::SoftmaxOptions lesson;
    const teach::Format format = teach::parse_low_format(options->dtype);
    lesson.dtype = format.dtype;
    lesson.scores = teach::parse_numbers("--scores", options->scores, format);
    for (const double score : lesson.scores) {
      if (score < -300 || score > 300)  // the f64 that shows what is right overflows there too
        fail(ErrorKind::config, "E-TEACH-VALUE", "--scores = " + options->scores + ": must lie within -300 and 300");
    }
    lesson.n = options->n;
    lesson.spread = teach::parse_finite("--spread", options->spread, format);
    // Normal numbers reach some seven times their deviation.
    (void)teach::parse_finite("ten times --spread", "10*(" + options->spread + ")", format);
    lesson.seed = static_cast<uint64_t>(options->seed);
    const teach::ChainLesson result = teach::softmax_lesson(lesson);
    show(*options, chain_text(result), chain_json(result, trainer::Json::object().set("seed", options->seed)));
  });
}

void add_layernorm(Verb& group) {
  Verb verb = group.add("layernorm", "the first step of a layer norm that 16 bits cannot hold");
  struct Options : TeachOptions {
    std::string mean = "4.7", outlier = "300", eps = "1e-12";
    int64_t n = 768;
  };
  const auto options = std::make_shared<Options>();
  add_format(verb, *options, "fp16 or bf16");
  verb.option("--n", options->n, {.doc = "size of a row", .shows_default = true, .range = {2, 60'000}});
  verb.option("--outlier", options->outlier,
              {.doc = "the largest value of the first row", .shows_default = true, .placeholder = "NUMBER"});
  verb.option("--mean", options->mean,
              {.doc = "mean of the second row", .shows_default = true, .placeholder = "NUMBER"});
  verb.option("--eps", options->eps,
              {.doc = "what is added to the variance", .shows_default = true, .placeholder = "NUMBER"});
  add_seed(verb, *options);
  add_json(verb, *options, "\"seed\", \"dtype\", \"lessons\"");
  verb.action([options] {
    teach::LayerNormOptions lesson;
    const teach::Format format = teach::parse_low_format(options->dtype);
    lesson.dtype = format.dtype;
    lesson.n = options->n;
    lesson.outlier = teach::parse_finite("--outlier", options->outlier, format);
    lesson.mean = teach::parse_finite("--mean", options->mean, format);
    lesson.eps = teach::parse_finite("--eps", options->eps);
    if (lesson.eps <= 0) fail(ErrorKind::config, "E-TEACH-VALUE", "--eps = " + options->eps + ": must be > 0");
    lesson.seed = static_cast<uint64_t>(options->seed);
    const teach::ChainLesson result = teach::layernorm_lesson(lesson);
    show(*options, chain_text(result), chain_json(result, trainer::Json::object().set("seed", options->seed)));
  });
}

std::vector<std::string> read_answers(const std::string& path) {
  LineReader reader(path);
  std::vector<std::string> out;
  for (std::string line; reader.next(line);) {
    if (!line.empty() && line.back() == '\r') line.pop_back();
    out.push_back(line);
  }
  return out;
}

void add_quiz(Verb& group) {
  Verb verb = group.add("quiz", "questions about the formats, and the grading of answers");
  struct Options : TeachOptions {
    std::vector<std::string> answers;
    std::string file;
    int64_t questions = 8;
    bool solutions = false;
  };
  const auto options = std::make_shared<Options>();
  add_seed(verb, *options);
  verb.option("--questions", options->questions, {.doc = "how many", .shows_default = true, .range = {1, 1000}});
  verb.option("--answer", options->answers,
              {.doc = "an answer, once for each question in their order: yes, no, 0.25, 2^-14", .placeholder = "A"});
  verb.option("--answers", options->file, {.doc = "a file with an answer a line; - is stdin", .placeholder = "FILE|-"});
  verb.flag("--solutions", options->solutions, "show the answers and why");
  add_json(verb, *options, "\"seed\", \"questions\", and \"right\", \"of\" where answers are given");
  verb.action([options] {
    if (!options->answers.empty() && !options->file.empty())
      fail(ErrorKind::config, "E-TEACH-ANSWERS", "--answer and --answers: give the answers in one of the two ways");
    const auto seed = static_cast<uint64_t>(options->seed);
    teach::QuizSheet sheet{seed, teach::quiz_questions(seed, options->questions), {}, options->solutions};
    if (!options->file.empty()) options->answers = read_answers(options->file);
    if (!options->answers.empty() || !options->file.empty())
      sheet.grades = teach::grade(sheet.questions, options->answers);
    show(*options, quiz_text(sheet), quiz_json(sheet));
  });
}

}  // namespace

void add_teach(Program& program) {
  Verb group = program.root.add("teach", "what 16 bits do to numbers, computed before your eyes");
  add_bits(group);
  add_formats_verb(group);
  add_swallow(group);
  add_accumulate(group);
  add_softmax(group);
  add_layernorm(group);
  add_teach_break(group);
  add_quiz(group);
}

}  // namespace mixtape::tools
