// The reader of configurations alone: places, limits, and that no text makes it do anything but answer.
#include <doctest/doctest.h>

#include <random>
#include <string>
#include <vector>

#include "tests/shared.h"
#include "tools/config/config.h"
#include "tools/config/json_locate.h"
#include "tools/config/suggest.h"

namespace {

using namespace mixtape::config;
using mixtape::tests::error_of;

std::string nested(int levels) {
  return std::string(static_cast<size_t>(levels), '[') + std::string(static_cast<size_t>(levels), ']');
}

const std::string sample = R"({ // the beginning
  "task": {"type": "text_classification", "data_dir": "d/\u00e4\ud83d\ude00"}, "tokenizer": {"vocab": "v.txt"},
  /* a longer
     comment */
  "trainer": {"seed": 7, "max_grad_norm": 1.5e-3, "deterministic": true, "metric": "loss"},
  "amp": {"dtype": "fp16", "overrides": {}, "loss_scale": "dynamic"}, "threads": 2
})";

/// Parses to the end, or throws the one kind of error that it may.
void must_answer(const std::string& text) {
  const auto error = error_of([&] { parse_config(text, "c.json", "/base", {}); });
  if (error) CHECK(error->code() == "E-CONFIG");
}

}  // namespace

TEST_CASE("config reader: each key and value has its place") {
  const Document document = read_json("{\n  \"a\": [1, {\"b\": null}],\n\t\"\u00e4\": \"x\" }");
  REQUIRE(document.complete);
  REQUIRE(document.problems.empty());
  const Value& root = document.root;
  REQUIRE(root.members.size() == 2);
  CHECK(root.members[0].at.line == 2);
  CHECK(root.members[0].at.column == 3);
  const Value& list = root.members[0].value;
  CHECK(list.at.column == 8);
  REQUIRE(list.items.size() == 2);
  CHECK(list.items[0].at.column == 9);
  CHECK(list.items[1].members[0].at.column == 13);
  CHECK(list.items[1].members[0].value.at.column == 18);
  CHECK(root.members[1].at.line == 3);
  CHECK(root.members[1].key == "\u00e4");
  CHECK(root.members[1].value.at.column == 7);
}

TEST_CASE("config reader: limits") {
  CHECK(read_json(nested(64)).complete);
  CHECK_FALSE(read_json(nested(65)).complete);
  CHECK(read_json(nested(100'000)).problems.size() == 1);
  CHECK(read_json(std::string(999'999, ' ') + "1").complete);
  CHECK_FALSE(read_json(std::string(1'000'000, ' ') + "1").complete);
  const Document twice = read_json("{\"a\": 1, \"a\": 2}");
  CHECK(twice.root.members.size() == 1);
  CHECK(twice.root.members[0].value.number == 1);
}

TEST_CASE("config reader: numbers are read to the last bit") {
  const std::vector<std::pair<std::string, double>> good = {
      {"0", 0},           {"-0", -0.0},
      {"1", 1},           {"-12.5", -12.5},
      {"2e-5", 2e-5},     {"1E+3", 1000},
      {"0.1", 0.1},       {"0.30000000000000004", 0.30000000000000004},
      {"5e-324", 5e-324}, {"1.7976931348623157e308", 1.7976931348623157e308}};
  for (const auto& [text, value] : good) {
    const Document document = read_json(text);
    CHECK(document.problems.empty());
    CHECK(document.root.number == value);
  }
  for (const char* text : {"01", "-", "1.", ".1", "1e", "1e+", "0x1", "1_0", "--1", "1.2.3", "1e5.5", "\u0661"}) {
    CHECK_MESSAGE(!read_json(text).problems.empty(), text);
  }
}

TEST_CASE("config reader: strings come back as they were") {
  const std::string text = "a\"b\\c\n\t\x01 \u00e4 \U0001F600 \xFF\xC0\x80 \xED\xA0\x80";
  const Document document = read_json(quote_json(text));
  CHECK(document.problems.empty());
  CHECK(document.root.text == text);
  for (const char* bad :
       {"\"\xFF\"", "\"\xC0\x80\"", "\"\xED\xA0\x80\"", "\"\xE0\x80\x80\"", "\"\xF4\x90\x80\x80\"", "\"\xC3\""}) {
    CHECK_FALSE(read_json(bad).problems.empty());
  }
}

TEST_CASE("config reader: every beginning and every damaged byte gets an answer") {
  for (size_t length = 0; length <= sample.size(); ++length) must_answer(sample.substr(0, length));
  CHECK_FALSE(error_of([] { parse_config(sample, "c.json", "/base", {}); }));
  std::mt19937 random(20);
  const std::string bytes = "{}[],:\"\\/*'#.-+eE0189tfnNTx_ \n\r\t\xC3\xFF\x80";
  for (int i = 0; i < 4'000; ++i) {
    std::string text = sample;
    for (unsigned k = random() % 4; k < 4; ++k) {
      const size_t at = random() % text.size();
      const char byte = random() % 8 == 0 ? static_cast<char>(random() % 256) : bytes[random() % bytes.size()];
      switch (random() % 3) {
        case 0: text[at] = byte; break;
        case 1: text.insert(at, 1, byte); break;
        default: text.erase(at, 1); break;
      }
    }
    must_answer(text);
  }
}

TEST_CASE("edit distance: with its limit") {
  CHECK(edit_distance("", "", 2) == 0);
  CHECK(edit_distance("seed", "seed", 2) == 0);
  CHECK(edit_distance("sede", "seed", 2) == 2);
  CHECK(edit_distance("warmup_step", "warmup_steps", 2) == 1);
  CHECK(edit_distance("abc", "", 3) == 3);
  CHECK(edit_distance("kitten", "sitting", 2) == 3);  // 3 stands for more than 2
  CHECK(edit_distance("kitten", "sitting", 5) == 3);
  CHECK(edit_distance("a", std::string(1000, 'a'), 2) == 3);
  CHECK(nearest("tokenise", {"train", "tokenize", "ops"}) == std::vector<std::string>{"tokenize"});
  CHECK(nearest("xyz", {"train", "ops"}).empty());
}
