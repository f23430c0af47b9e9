// mixtape data check: the figures, the warnings and the exit codes; and the normal form C behind one of them.
#include <doctest/doctest.h>
#include <sys/resource.h>

#include <string>
#include <vector>

#include "data/nfc.h"
#include "data/survey.h"
#include "tests/tiny_run.h"

namespace mixtape::data {
namespace {
using tests::contains;
using tests::ProgramResult;
using tests::run_program;
using tests::TinyRun;
using namespace std::string_literals;

Dataset rows_of(const std::string& split, std::vector<std::string> texts, std::vector<int32_t> labels) {
  Dataset rows{.split = split,
               .text_file = split,
               .label_file = split,
               .texts = std::move(texts),
               .labels = std::move(labels),
               .class_names = {"no", "yes"},
               .lines = {}};
  for (size_t i = 0; i < rows.texts.size(); ++i) rows.lines.push_back(i + 2);
  return rows;
}

/// Time on the clock depends on what else the machine does.
double cpu_seconds_of_children() {
  rusage used{};
  ::getrusage(RUSAGE_CHILDREN, &used);
  return static_cast<double>(used.ru_utime.tv_sec + used.ru_stime.tv_sec) +
         1e-6 * static_cast<double>(used.ru_utime.tv_usec + used.ru_stime.tv_usec);
}

Tokenizer tokenizer() { return Tokenizer(Vocab::parse("[PAD]\n[UNK]\n[CLS]\n[SEP]\na\nb\n", "v")); }
}  // namespace

TEST_CASE("survey: every figure of a split") {
  const Dataset rows = rows_of("train", {"a b", "a", "a b", "a\0"s, "", "x y\xFF", "e\u0301", "a a a a", "a"},
                               {0, 1, 1, 0, 0, 1, 1, 1, 1});
  const SplitSurvey s = survey(rows, tokenizer(), 4);
  CHECK(s.rows == 9);
  CHECK(s.per_class == std::vector<int64_t>{3, 6});
  CHECK(s.lengths.min == 2);
  CHECK(s.lengths.median == 3);
  CHECK(s.lengths.p95 == 6);
  CHECK(s.lengths.max == 6);
  CHECK(s.cut == 1);
  CHECK(s.pieces == 14);
  CHECK(s.unknown == 3);  // x, y and é
  CHECK(s.empty == 1);
  CHECK(s.duplicates == 2);
  CHECK(s.contradictions == 1);
  CHECK(s.ill_formed == 1);
  CHECK(s.ill_lines == std::vector<size_t>{7});
  CHECK(s.controls == 1);
  CHECK(s.not_nfc == 1);
}

TEST_CASE("survey: percentiles are lengths that occur") {
  std::vector<std::string> texts;
  for (int i = 1; i <= 100; ++i) {
    std::string text;
    for (int word = 0; word < i; ++word) text += "a ";
    texts.push_back(text);
  }
  const SplitSurvey s = survey(rows_of("train", texts, std::vector<int32_t>(100, 0)), tokenizer(), 1000);
  CHECK(s.lengths.min == 3);
  CHECK(s.lengths.median == 52);
  CHECK(s.lengths.p95 == 97);
  CHECK(s.lengths.p99 == 101);
  CHECK(s.lengths.max == 102);
}

TEST_CASE("survey: a leak names the rows in both files") {
  const Dataset train = rows_of("train", {"a", "b", "c"}, {0, 1, 0}),
                test = rows_of("test", {"x", "c", "a"}, {0, 0, 0});
  const Leak leak = find_leak(train, test);
  CHECK(leak.rows == 2);
  REQUIRE(leak.examples.size() == 2);
  CHECK(leak.examples[0].first == 4);
  CHECK(leak.examples[0].second == 3);
  CHECK(leak.examples[1].second == 4);
  CHECK(find_leak(test, rows_of("val", {"y"}, {0})).rows == 0);
}

TEST_CASE("normal form C") {
  for (const char* text : {"", "abc", "\u00e9", "x\u0301", "\uAC00", "\u1100", "\u0301", "q\u0323\u0307", "\xFF",
                           "\u1E09", "\uFB01", "a\u0315\u0301"}) {
    CAPTURE(text);
    if (std::string(text) == "a\u0315\u0301") {
      CHECK_FALSE(is_nfc(text));  // class 232 before 230
    } else {
      CHECK(is_nfc(text));
    }
  }
  for (const char* text : {"e\u0301", "q\u0307\u0323", "\u1100\u1161", "\uAC00\u11A8", "\u212B", "\u0340",
                           "\u00ca\u0323", "e\u0323\u0302", "\u0958"}) {
    CAPTURE(text);
    CHECK_FALSE(is_nfc(text));
  }
}

TEST_CASE("data check: good data, in words and as JSON") {
  const TinyRun tiny;
  const std::string check = "data check '" + tiny.config_path() + "'";
  const ProgramResult text = run_program(check);
  CHECK(text.exit_code == 0);
  for (const std::string words : {"train  24 rows", "plain 16 (66.67%), rude 8 (33.33%)", "at 16 tokens"})
    CHECK_MESSAGE(contains(text.out, words), words);
  CHECK(contains(text.err, "warning W-DATA  "));
  CHECK_FALSE(contains(text.err, "you are"));
  tiny.folder().write("data/val_text.txt", "other\nyou are rude !\nother\n");
  tiny.folder().write("data/test_text.txt", "you are rude !\n");
  tiny.folder().write("data/val_labels.txt", "0\n1\n0\n");
  tiny.folder().write("data/test_labels.txt", "1\n");
  const ProgramResult leak = run_program(check);
  CHECK(contains(leak.out, "in both val and test  1 rows of test: line 1\n"));
  CHECK(contains(leak.err, "test_text.txt repeat a text of"));
  const ProgramResult json = run_program(check + " --json --set trainer.max_train_rows=2");
  const nlohmann::json read = nlohmann::json::parse(json.out);
  CHECK(read["splits"]["train"]["rows"] == 2);
  CHECK(read["splits"]["val"]["rows"] == 3);
  CHECK(read["splits"]["test"]["classes"].size() == 2);
  CHECK(read["splits"]["train"]["tokens"]["min"] <= read["splits"]["train"]["tokens"]["max"]);
  CHECK(contains(json.err, "do not fill one batch of 4"));
}

TEST_CASE("data check: odd bytes have their line, faults are exit 3 and all shown") {
  const TinyRun tiny;
  const std::string check = "data check '" + tiny.config_path() + "'";
  tiny.folder().write("data/val_text.txt", "a\n\xFF\xFE secret\nb\n");
  tiny.folder().write("data/val_labels.txt", "0\n1\n0\n");
  const ProgramResult odd = run_program(check);
  CHECK(odd.exit_code == 0);
  CHECK(contains(odd.err, "val_text.txt:2"));
  CHECK_FALSE(contains(odd.err + odd.out, "secret"));
  tiny.folder().write("data/val_labels.txt", "0\n2\n0\n");
  tiny.folder().write("data/test_labels.txt", "0\n");
  const ProgramResult bad = run_program(check + " --json");
  CHECK(bad.exit_code == 3);
  CHECK(bad.out.empty());
  CHECK(contains(bad.err, "error E-DATA-LABEL  "));
  CHECK(contains(bad.err, "val_labels.txt:2: "));
  CHECK(contains(bad.err, "error E-DATA-COUNT  "));
  CHECK(run_program(check + " --set tokenizer.vocab=none.txt --set task.data_dir=none").exit_code == 3);
  CHECK(run_program("data check none.json").exit_code == 2);
}

TEST_CASE("data check: the tweets of both tasks in about two seconds") {
  if (tests::no_shared()) return;
  const tests::TempFolder folder;
  const std::string config = folder.write(
      "c.json", "{\"task\": {\"data_dir\": \"" + tests::shared_path("data/tweet_eval/offensive") +
                    "\"}, \"tokenizer\": {\"vocab\": \"" + tests::shared_path("data/bert/vocab.txt") + "\"}}");
  const double before = cpu_seconds_of_children();
  const nlohmann::json read = nlohmann::json::parse(run_program("data check --json '" + config + "'").out);
  const double seconds = cpu_seconds_of_children() - before;
  MESSAGE(seconds, " s of processor time");
  CHECK(read["splits"]["train"]["rows"] == 11916);
  CHECK(read["splits"]["train"]["classes"]["offensive"] == 3941);
  CHECK(read["splits"]["test"]["classes"]["not-offensive"] == 620);
  CHECK(seconds < 4);
}

}  // namespace mixtape::data
