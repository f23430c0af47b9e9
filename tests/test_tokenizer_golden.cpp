// The tokenizer against the reference's ids: all tweets, hand-made, random and invalid strings, and other people's
// bugs.
#include <doctest/doctest.h>

#include <charconv>
#include <clocale>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "data/file.h"
#include "data/tokenizer.h"
#include "tests/shared.h"

namespace mixtape::data {
namespace {
using Ids = std::vector<int32_t>;

Tokenizer bert(TokenizerOptions options) {
  return Tokenizer(Vocab::load(tests::shared_path("data/bert/vocab.txt")), options);
}

Ids parse_ids(std::string_view line) {
  Ids ids;
  const char* at = line.data();
  const char* const end = at + line.size();
  while (at != end) {
    int32_t id = -1;
    at = std::from_chars(at, end, id).ptr;
    ids.push_back(id);
    if (at != end) ++at;
  }
  return ids;
}

std::string from_hex(const std::string& hex) {
  std::string bytes;
  for (size_t i = 0; i < hex.size(); i += 2)
    bytes.push_back(static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16)));
  return bytes;
}

/// Rows of a JSON-lines file whose ids are wrong; never prints the texts.
size_t wrong_rows(const std::string& file, size_t expected_rows) {
  const Tokenizer tokenizer = bert({true, true, 0});
  const std::string text = tests::slurp(tests::shared_path("data/golden/" + file));
  size_t wrong = 0, rows = 0;
  for (const std::string_view line : split_lines(text)) {
    const nlohmann::json row = nlohmann::json::parse(line);
    const std::string bytes = row.contains("hex") ? from_hex(row["hex"]) : row["text"].get<std::string>();
    bool right = tokenizer.encode(bytes, false) == row["ids"].get<Ids>();
    if (row.contains("tokens")) {
      std::vector<std::string> pieces;
      for (const std::string_view piece : tokenizer.pieces(bytes, false)) pieces.emplace_back(piece);
      right = right && pieces == row["tokens"].get<std::vector<std::string>>();
    }
    if (!right) MESSAGE(file, ":", rows + 1, " differs");
    wrong += !right;
    ++rows;
  }
  CHECK(rows == expected_rows);
  return wrong;
}
std::string repeated(const std::string& text, int count) {
  std::string out;
  for (int i = 0; i < count; ++i) out += text;
  return out;
}

Ids hello20_ids() {
  Ids ids{7592};
  for (int i = 0; i < 9; ++i) ids.insert(ids.end(), {18223, 11631, 15350});
  ids.insert(ids.end(), {18223, 2080});
  return ids;
}

/// A row of shared/cases/tokenizer-and-files.md.
struct Case {
  int row;
  std::string text;
  Ids ids;
};
const std::vector<Case> other_peoples_bugs = {
    {1, "Kant\u014D", {26044, 2080}},
    {2, "l\u01DCshi", {16299, 2072}},
    {4, "\u00C6thelbald", {1097, 10760, 20850, 19058}},
    {5, "\u0643\u0648\u062A\u0627 \u0633\u0644\u0648\u062F\u0648\u06A0", {1293, 29836, 29817, 25573, 100}},
    {7, "Hokkaid\u014D", {20826}},
    {8, "na\u00EFve", {15743}},
    {10, "caf\u00E9", {7668}},
    {11, "\u0439", {1188}},
    {13, "\u03A3\u0391\u03A3", {1173, 14608, 29733}},
    {16, "shoot\u0097 TOO", {5607, 2205}},
    {17, "a\u00ADb", {11113}},
    {17, "\U0001F92A", {100}},
    {19, "x\U000FE4FAy", {1060, 2100}},
    {20,
     "\u8FD9\u662F\u4E00\u4E2A\uFFFD\uFFFD\uFFFD\u4E2D\u6587\u53E5\u5B50",
     {100, 100, 1740, 100, 1746, 1861, 100, 1816}},
    {22, "\U0001F971 \U0001F90F \U0001F9BE", {100, 100, 100}},
    {22, "\U0001F4F7\U0001F90F", {100}},
    {23, "\xED\xA0\xBC", {}},  // a lone surrogate: dropped
    {23, "\U0001F337", {100}},
    {25, "\u00BFQui\u00E9n", {1094, 21864, 2368}},
    {26, "vote\u2661\u2661", {100}},
    {26, "Rushers!\u2665\u2661", {5481, 2545, 999, 100}},
    {28, "\U00020000\U0002A6DF", {100, 100}},
    {31, "This is a [MASK] sequence", {2023, 2003, 1037, 103, 5537}},
    {32, "The quick brown [MASK] jumps", {1996, 4248, 2829, 103, 14523}},
    {34, "\uFF03[SEP]", {100, 102}},
    {35, "This is[SEP]a test", {2023, 2003, 102, 1037, 3231}},
    {38, "helloworld\U0001F600", {100}},
    {40, repeated("Hello", 20), hello20_ids()},
    {40, repeated("Hello", 21), {100}},
    {41, std::string(101, 'a'), {100}},
    {43, "\u0935\u0927\u0928\u0938\u092D", {1335, 29862, 29863, 29874, 29866}},
    {44, "embeddings and hillclimbing", {7861, 8270, 4667, 2015, 1998, 2940, 20464, 5714, 10472}},
};
}  // namespace

TEST_CASE("all tweets have the reference's ids") {
  if (tests::no_shared()) return;
  const Tokenizer plain = bert({true, false, 0}), cut = bert({true, false, 128});
  size_t rows = 0;
  for (const std::string task : {"offensive", "irony"}) {
    for (const std::string split : {"train", "val", "test"}) {
      const std::string tweets =
          tests::slurp(tests::shared_path("data/tweet_eval/" + task + "/" + split + "_text.txt"));
      const std::string golden = tests::slurp(tests::shared_path("data/golden/" + task + "_" + split + ".ids.txt"));
      const std::string golden128 =
          tests::slurp(tests::shared_path("data/golden/" + task + "_" + split + ".ids128.txt"));
      const auto texts = split_lines(tweets), ids = split_lines(golden), ids128 = split_lines(golden128);
      REQUIRE(texts.size() == ids.size());
      REQUIRE(texts.size() == ids128.size());
      size_t wrong = 0;
      for (size_t i = 0; i < texts.size(); ++i) {
        wrong += plain.encode(texts[i], false) != parse_ids(ids[i]);
        wrong += cut.encode(texts[i]) != parse_ids(ids128[i]);
      }
      CAPTURE(task + "/" + split);
      CHECK(wrong == 0);
      rows += texts.size();
    }
  }
  CHECK(rows == 18701);
}

TEST_CASE("nasty, random and invalid strings have the reference's ids") {
  if (tests::no_shared()) return;
  CHECK(wrong_rows("nasty.jsonl", 162) == 0);
  CHECK(wrong_rows("fuzz.jsonl", 1000) == 0);
  CHECK(wrong_rows("invalid_utf8.jsonl", 13) == 0);
}

TEST_CASE("bugs of other ports: shared/cases/tokenizer-and-files.md") {
  if (tests::no_shared()) return;
  const Tokenizer tokenizer = bert({true, true, 0});
  for (const Case& c : other_peoples_bugs) {
    CAPTURE(c.row);
    CHECK(tokenizer.encode(c.text, false) == c.ids);
  }
  // 14: no locale decides about the lower case of I (where the machine has that locale; else it changes nothing).
  std::setlocale(LC_ALL, "tr_TR.UTF-8");
  CHECK(tokenizer.encode("ISTANBUL", false) == Ids{9960});
  std::setlocale(LC_ALL, "C");
  // 47, 49: the special tokens have their room, and a default limit cuts.
  CHECK(bert({true, false, 3}).encode(repeated("Hello", 20)) == Ids{101, 7592, 102});
  CHECK(bert({true, false, 512}).encode(repeated("hello ", 600)).size() == 512);
  // 50: a cased setting keeps the case, and unknown words still have an id.
  CHECK(bert({false, false, 0}).encode("Hello hello", false) == Ids{100, 7592});
}

}  // namespace mixtape::data
