// The tokenizer against the reference's ids: all tweets, hand-made, random and invalid strings. Other people's bugs
// stand in test_tokenizer_cases.cpp.
#include <doctest/doctest.h>

#include <charconv>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "data/file.h"
#include "data/tokenizer.h"
#include "tests/bert_tokenizer.h"
#include "tests/shared.h"

namespace mixtape::data {
namespace {
using tests::bert_tokenizer;
using Ids = std::vector<int32_t>;

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
  const Tokenizer tokenizer = bert_tokenizer({true, true, 0});
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
}  // namespace

TEST_CASE("all tweets have the reference's ids") {
  if (tests::no_shared()) return;
  const Tokenizer plain = bert_tokenizer({true, false, 0}), cut = bert_tokenizer({true, false, 128});
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

}  // namespace mixtape::data
