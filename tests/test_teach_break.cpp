// What teach break promises: without its mechanism each training is damaged, with it the same training is whole, for
// several seeds; and the command from outside.
#include <doctest/doctest.h>

#include "core/factory.h"
#include "core/kernels/parallel.h"
#include "tests/golden.h"
#include "tests/svg_texts.h"
#include "tests/tiny_run.h"
#include "tools/teach/break.h"

namespace mixtape::tests {
namespace {
using nlohmann::json;
using teach::Break;
using teach::BreakLesson;
using teach::BreakRun;

/// Calls check(lesson) for three seeds.
template <class Check>
void for_seeds(Break what, const Check& check) {
  kernels::set_thread_count(1);  // the models are too small to share
  for (const uint64_t seed : {1, 2, 3}) {
    const BreakLesson lesson = teach::break_lesson({.what = what, .seed = seed});
    const std::string text = break_text(lesson);
    CAPTURE(text);
    CHECK(lesson.off.loss.size() == lesson.on.loss.size());
    check(lesson.off, lesson.on);
  }
}

/// A training that came to its end: the loss fell, and the test sentences are told apart.
void check_whole(const BreakRun& run) {
  CHECK(teach::last_loss(run) < 0.35);
  CHECK(run.macro_f1 > 0.9);
}

const std::vector<std::string> break_options = {"--no-master",           "--no-scale",     "--scale 1e9",
                                                "--clip-before-unscale", "--softmax-fp16", "--sum-in-fp16",
                                                "--double-sigmoid"};

std::string break_golden(const std::string& option) {
  const std::string name = option.substr(2, option.find(' ') - 2);
  return slurp(MIXTAPE_SOURCE_DIR "/tests/golden/teach/break_" + name + ".txt");
}

struct BreakRefused {
  const char *command, *code, *word;
};
constexpr BreakRefused break_refused[] = {
    {"--no-master --no-scale", "E-TEACH-BREAK", "--no-master and --no-scale: one mechanism at a time"},
    {"--no-scale --scale 1e9", "E-TEACH-BREAK", "one mechanism at a time"},
    {"--svg a.svg", "E-TEACH-BREAK", "name what to break"},
    {"--scale", "E-USAGE", "--scale"},
    {"--scale x", "E-TEACH-VALUE", "expected a number"},
    {"--scale nan", "E-TEACH-VALUE", "must be finite"},
    {"--scale 0", "E-SCALE-OPTIONS", "2^-126"},
    {"--scale=-1", "E-SCALE-OPTIONS", "2^-126"},
    {"--scale 1e300", "E-TEACH-VALUE", "inf in fp32"},
    {"--no-master --seed -1", "E-USAGE", "--seed"},
    {"--no-masters", "E-USAGE", "--no-master"},
    {"no-master", "E-USAGE", "no-master"},
};

}  // namespace

TEST_CASE("teach break: without an fp32 master bf16 weights stand still") {
  for_seeds(Break::no_master, [](const BreakRun& off, const BreakRun& on) {
    CHECK(off.never_moved >= 0.1);
    CHECK(off.norms_at_one >= 0.95);
    CHECK(on.never_moved <= 0.01);
    CHECK(on.norms_at_one <= 0.05);
    CHECK(teach::last_loss(on) < teach::last_loss(off));
    check_whole(on);
  });
}

TEST_CASE("teach break: without a loss scale fp16 gradients are flushed to 0") {
  for_seeds(Break::no_scale, [](const BreakRun& off, const BreakRun& on) {
    CHECK(off.zero_gradients >= 0.9);
    CHECK(on.zero_gradients <= 0.1);
    CHECK(off.skipped == 0);
    CHECK(teach::last_loss(off) > 0.6);
    CHECK(off.macro_f1 <= on.macro_f1 - 0.4);
    check_whole(on);
  });
}

TEST_CASE("teach break: a scale that cannot back off skips every step") {
  for_seeds(Break::fixed_scale, [](const BreakRun& off, const BreakRun& on) {
    CHECK(off.skipped == std::ssize(off.loss));
    CHECK(off.never_moved == 1);
    CHECK(off.end_scale == 1e9);
    CHECK(on.skipped <= 20);
    CHECK(on.end_scale < 1e7);
    check_whole(on);
  });
}

TEST_CASE("teach break: gradients that are clipped while they are scaled are all but gone") {
  for_seeds(Break::clip_before_unscale, [](const BreakRun& off, const BreakRun& on) {
    CHECK(off.norm <= 1.0001 / 65536);
    CHECK(on.norm >= 1000 * off.norm);
    CHECK(teach::last_loss(off) > teach::first_loss(off) - 0.05);
    CHECK(off.skipped == on.skipped);
    check_whole(on);
  });
  CHECK(teach::norm_after_clip_scaled(65536, 65536, 1) == doctest::Approx(1.5e-5).epsilon(0.02));
  CHECK(teach::norm_after_clip_scaled(0.5, 65536, 1) == doctest::Approx(0.5 / 65536));  // below the limit: left alone
}

TEST_CASE("teach break: a softmax with fp16 inside ends in NaN") {
  for_seeds(Break::softmax_fp16, [](const BreakRun& off, const BreakRun& on) {
    CHECK(std::isfinite(off.loss.front()));
    CHECK(std::isnan(teach::last_loss(off)));
    CHECK(off.skipped >= 60);
    CHECK(on.skipped == 0);
    CHECK(off.unanswered >= 0.05);
    CHECK(on.unanswered == 0);
    CHECK(off.macro_f1 <= on.macro_f1 - 0.05);
    check_whole(on);
  });
}

TEST_CASE("teach break: sums in fp16 turn a layer norm into zeros, and nothing is said") {
  for_seeds(Break::sum_in_fp16, [](const BreakRun& off, const BreakRun& on) {
    CHECK(off.skipped == 0);
    CHECK(teach::last_loss(off) > 0.6);
    CHECK(off.macro_f1 < 0.4);
    check_whole(on);
  });
}

TEST_CASE("teach break: a second sigmoid keeps the loss high and calls everything class 1") {
  for_seeds(Break::double_sigmoid, [](const BreakRun& off, const BreakRun& on) {
    CHECK(off.lowest >= 0.5);
    CHECK(off.highest <= 1 / (1 + std::exp(-1.0)) + 1e-6);
    CHECK(teach::last_loss(off) > 0.4);
    CHECK(off.macro_f1 < 0.4);
    check_whole(on);
  });
}

TEST_CASE("teach break: a scale that fits does no harm, and the lesson says so") {
  const BreakLesson lesson = teach::break_lesson({.what = Break::fixed_scale, .seed = 1, .scale = 1024});
  CHECK(lesson.off.skipped == 0);
  CHECK(lesson.off.loss == lesson.on.loss);
  CHECK(contains(break_seen(lesson), "nothing overflows"));
}

TEST_CASE("teach break: the two recipes of a lesson differ in one thing") {
  for (const teach::BreakFacts& facts : teach::break_facts()) {
    CAPTURE(facts.name);
    const teach::RecipePair pair = teach::break_recipes({.what = facts.what});
    const int differences =
        (pair.off.policy.rows != pair.on.policy.rows) + (pair.off.policy.storage != pair.on.policy.storage) +
        (pair.off.scaler.scale.dynamic != pair.on.scaler.scale.dynamic) +
        (pair.off.clips_scaled != pair.on.clips_scaled) + (pair.off.sigmoid_twice != pair.on.sigmoid_twice);
    CHECK(differences == 1);
    CHECK(pair.off.steps == pair.on.steps);
    CHECK(pair.off.lr == pair.on.lr);
    CHECK(pair.off.window == pair.on.window);
    CHECK(pair.off.max_norm == pair.on.max_norm);
    CHECK(pair.off.dtype == pair.on.dtype);
    CHECK(pair.off.adam == pair.on.adam);
  }
}

TEST_CASE("teach break: what heals stands where the lesson says") {
  for (const teach::BreakFacts& facts : teach::break_facts()) {
    const std::string source = slurp(MIXTAPE_SOURCE_DIR "/" + std::string(facts.file));
    CAPTURE(facts.file);
    CHECK(contains(source, std::string(facts.function)));
    CHECK(break_options[static_cast<size_t>(facts.what)].starts_with("--" + std::string(facts.name)));
  }
}

TEST_CASE("teach break: sentences are half of each class, their word decides, and seed and step draw them") {
  const teach::Sentences drawn = teach::draw_sentences(1000, 7, 3), again = teach::draw_sentences(1000, 7, 3);
  CHECK(to_vector(drawn.ids) == to_vector(again.ids));
  CHECK(drawn.labels == again.labels);
  CHECK(to_vector(teach::draw_sentences(1000, 7, 4).ids) != to_vector(drawn.ids));
  CHECK(to_vector(teach::draw_sentences(1000, 8, 3).ids) != to_vector(drawn.ids));
  const std::vector<double> ids = to_vector(drawn.ids);
  int64_t ones = 0;
  for (size_t row = 0; row < drawn.labels.size(); ++row) {
    ones += drawn.labels[row];
    std::vector<double> telling;
    for (size_t i = 1; i < 9; ++i)
      if (ids[row * 9 + i] <= 16) telling.push_back(ids[row * 9 + i]);
    REQUIRE(telling.size() == 1);
    CHECK((telling[0] > 8) == (drawn.labels[row] == 1));
  }
  CHECK(std::abs(ones - 500) < 70);
}

TEST_CASE("teach break: two curves as text") {
  const double nan = std::nan("");
  const std::vector<double> flat(60, 1.0);
  std::vector<double> falling(60, 0.5);
  falling[0] = 1;
  falling[59] = nan;
  const std::string text = teach::two_curves(flat, falling);
  CHECK(contains(text, "   NaN |" + std::string(59, ' ') + "!\n"));
  CHECK(contains(text, " 1.000 |*" + std::string(59, 'x') + "\n"));
  CHECK(contains(text, "| " + std::string(58, 'o') + "\n"));
  CHECK(contains(text, "step 60\n"));
  CHECK_FALSE(contains(teach::two_curves(flat, flat), "NaN"));
  CHECK(contains(teach::two_curves({0, 0}, {0, 0}), " 0.000 |" + std::string(60, '*') + "\n"));
  CHECK(contains(teach::two_curves({nan}, {nan}), "   NaN |" + std::string(60, '!') + "\n"));
}

// When a text changes on purpose: build/release/bin/mixtape teach break --no-master
// >tests/golden/teach/break_no-master.txt
TEST_CASE("teach break: every lesson prints what its golden file holds") {
  for (const std::string& option : break_options) {
    CAPTURE(option);
    const ProgramResult result = run_program("teach break " + option);
    CHECK(result.exit_code == 0);
    CHECK(result.err.empty());
    CHECK(text_fault(break_golden(option), result.out) == "");
  }
  CHECK(run_program("teach break").out == slurp(MIXTAPE_SOURCE_DIR "/tests/golden/teach/break.txt"));
  CHECK(text_fault("a 1.00, b\n", "a 1.01, b\n") == "");
  CHECK(text_fault("a 1.00 b\n", "a 1.2 b\n") != "");
  CHECK(text_fault("a 1 b\n", "a 1 c\n") != "");
  CHECK(text_fault("a\nb\n", "a\n") != "");
  CHECK(text_fault("a\n", "a\nb\n") != "");
  CHECK(text_fault("a\n", "a b\n") != "");
}

TEST_CASE("teach break: one JSON document each, the same each time and in every locale") {
  for (const std::string& option : break_options) {
    const std::string command = "teach break " + option + " --json";
    CAPTURE(command);
    const ProgramResult result = run_program(command);
    const json lesson = json::parse(result.out);
    CHECK(lesson["break"].get<std::string>() == option.substr(2, option.find(' ') - 2));
    CHECK(lesson["off"]["loss"].size() == lesson["on"]["loss"].size());
    CHECK(run_program(command, "", "LC_ALL=de_DE.UTF-8").out == result.out);
  }
  const auto losses = [](const std::string& seed) {
    return json::parse(run_program("teach break --sum-in-fp16 --json --seed " + seed).out)["on"]["loss"];
  };
  CHECK(losses("42") == losses("42"));
  CHECK(losses("42") != losses("43"));
  const json list = json::parse(run_program("teach break --json").out)["breaks"];
  CHECK(list.size() == break_options.size());
}

TEST_CASE("teach break: the picture has both curves, NaN left out") {
  const TempFolder folder;
  const std::string path = folder.path("a.svg");
  const ProgramResult result = run_program("teach break --softmax-fp16 --svg '" + path + "'");
  REQUIRE(result.exit_code == 0);
  CHECK(result.err == "wrote " + path + "\n");
  const std::string svg = slurp(path);
  CHECK(contains(svg, "in fp16"));
  CHECK(contains(svg, "in fp32"));
  CHECK(tests::svg_label_fault(svg) == "");
  CHECK_FALSE(contains(svg, "nan"));
  CHECK(run_program("teach break --sum-in-fp16 --svg /nowhere/a.svg").exit_code == 5);
}

TEST_CASE("teach break: what cannot be asked for is exit 2 and says why") {
  for (const BreakRefused& c : break_refused) {
    const std::string command = std::string("teach break ") + c.command;
    CAPTURE(command);
    const ProgramResult result = run_program(command);
    CAPTURE(result.err);
    CHECK(result.exit_code == 2);
    CHECK(result.out.empty());
    CHECK(contains(result.err, std::string("error ") + c.code + "  "));
    CHECK(contains(result.err, c.word));
  }
}

}  // namespace mixtape::tests
