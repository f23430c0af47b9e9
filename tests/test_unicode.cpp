// UTF-8 decoding, the table of code points, and words against codepoints.tsv.
#include <doctest/doctest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "data/file.h"
#include "data/unicode.h"
#include "data/words.h"
#include "tests/shared.h"

namespace mixtape::data {
namespace {
using Strings = std::vector<std::string>;

std::u32string decode(std::string_view bytes) {
  std::u32string out;
  const char* at = bytes.data();
  while (at != bytes.data() + bytes.size()) out.push_back(decode_utf8(at, bytes.data() + bytes.size()));
  return out;
}

std::string utf8(const std::u32string& codes) {
  std::string out;
  for (const char32_t code : codes) append_utf8(out, code);
  return out;
}

Strings words_of(std::string_view text, bool lowercase = true) {
  Words words;
  words.split(text, lowercase);
  Strings out;
  for (size_t i = 0; i < words.size(); ++i) {
    if (words.characters(i) != decode(words[i]).size()) FAIL("wrong number of characters in ", words[i]);
    out.emplace_back(words[i]);
  }
  return out;
}

/// Reads a hexadecimal number; fails at anything else.
struct Hex {
  char32_t& code;
};
std::istream& operator>>(std::istream& in, Hex hex) {
  uint32_t number = 0;
  if (in >> number) hex.code = number;
  return in;
}

bool is_surrogate(char32_t code) { return code >= 0xD800 && code < 0xE000; }

/// codepoints.tsv, and what it expects.
class Table {
 public:
  Table() {
    std::istringstream lines(tests::slurp(tests::shared_path("data/golden/codepoints.tsv")));
    for (std::string line; std::getline(lines, line);) {
      std::istringstream fields(line);  // first, last, class, mapping…, "SPLIT"
      char32_t first = 0, last = 0;
      Row row;
      fields >> std::hex >> Hex{first} >> Hex{last} >> row.kind;
      for (char32_t code = 0; fields >> Hex{code};) row.mapping.push_back(code);
      for (char32_t code = first; code <= last; ++code) rows_[code] = row;
    }
  }

  std::string kind(char32_t code) const { return rows_.contains(code) ? rows_.at(code).kind : "KEEP"; }

  std::u32string mapping(char32_t code) const {
    if (kind(code) == "DROP") return {};
    if (kind(code) == "MAP") return rows_.at(code).mapping;
    if (kind(code) != "HANGUL") return {code};
    const char32_t s = code - 0xAC00;
    std::u32string jamo{0x1100 + s / 588, 0x1161 + s / 28 % 21};
    if (s % 28 != 0) jamo.push_back(0x11A7 + s % 28);
    return jamo;
  }

  /// The words of 'a', the code point, 'b', cut by the table's own classes.
  Strings words(char32_t code) const {
    Strings words{"a"};
    bool fresh = false;
    for (const char32_t part : mapping(code) + U"b") {
      const bool alone = kind(part) == "PUNCT" || kind(part) == "CJK", space = kind(part) == "SPACE";
      if ((alone || fresh) && !space) words.emplace_back();
      if (!space) append_utf8(words.back(), part);
      fresh = alone || space;
    }
    return words;
  }

 private:
  struct Row {
    std::string kind;
    std::u32string mapping;
  };
  std::map<char32_t, Row> rows_;
};
}  // namespace

TEST_CASE("every code point survives UTF-8") {
  size_t wrong = 0;
  for (char32_t code = 0; code <= 0x10FFFF; ++code) {
    if (is_surrogate(code)) continue;
    std::string bytes;
    append_utf8(bytes, code);
    const size_t length = code < 0x80 ? 1 : code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    wrong += bytes.size() != length || decode(bytes) != std::u32string(1, code) || !is_valid_utf8(bytes);
  }
  CHECK(wrong == 0);
}

TEST_CASE("each maximal part of an ill-formed sequence is one U+FFFD") {
  struct Case {
    std::string bytes;
    std::u32string codes;
    size_t first_bad;
  };
  using namespace std::string_literals;
  const std::vector<Case> cases = {
      {"", U"", 0},
      {"ab\xFF"s, U"ab\uFFFD", 2},
      {"\x80", U"\uFFFD", 0},
      {"\xC2", U"\uFFFD", 0},                                // cut off
      {"\xC0\xAF", U"\uFFFD\uFFFD", 0},                      // overlong solidus
      {"\xC1\x81", U"\uFFFD\uFFFD", 0},                      // overlong A
      {"\xE0\x80\xAF", U"\uFFFD\uFFFD\uFFFD", 0},            // overlong in three bytes
      {"\xF0\x80\x80\xAF", U"\uFFFD\uFFFD\uFFFD\uFFFD", 0},  // overlong in four bytes
      {"\xED\xA0\x80", U"\uFFFD\uFFFD\uFFFD", 0},            // surrogate U+D800
      {"\xED\x9F\xBF", U"\uD7FF", 3},                        // the last before the surrogates
      {"\xEE\x80\x80", U"\uE000", 3},                        // the first behind them
      {"\xF4\x8F\xBF\xBF", U"\U0010FFFF", 4},
      {"\xF4\x90\x80\x80", U"\uFFFD\uFFFD\uFFFD\uFFFD", 0},
      {"\xF5\x80", U"\uFFFD\uFFFD", 0},
      {"a\xE2\x82", U"a\uFFFD", 1},          // two of three bytes: one part
      {"a\xF0\x9F\x98", U"a\uFFFD", 1},      // three of four
      {"\xE2\x82\x41", U"\uFFFD\u0041", 0},  // the interrupting byte is read again
      {"\xF0\x9F\xC3\xA9", U"\uFFFD\u00E9", 0},
      {"x\xEF\xBF\xBDy", U"x\uFFFDy", 5},  // a literal U+FFFD is well formed
  };
  for (const Case& c : cases) {
    CAPTURE(c.bytes);
    CHECK(utf8(decode(c.bytes)) == utf8(c.codes));
    CHECK(first_invalid_utf8(c.bytes) == c.first_bad);
  }
}

TEST_CASE("words: cleaning, case, accents, punctuation, ideographs") {
  CHECK(words_of("") == Strings{});
  CHECK(words_of(" \t\r\n ") == Strings{});
  CHECK(words_of("Hello,  WORLD!") == Strings{"hello", ",", "world", "!"});
  CHECK(words_of("it's $5_x") == Strings{"it", "'", "s", "$", "5", "_", "x"});
  CHECK(words_of("a\u00ADb") == Strings{"ab"});  // soft hyphen: a format character
  CHECK(words_of(std::string_view("a\0b\x0B\x7F", 5)) == Strings{"ab"});
  CHECK(words_of("a\u00A0b\u3000c\u2028d") == Strings{"a", "b", "c", "d"});
  CHECK(words_of("\uFEFFa\uE000\uFFFD\xFF") == Strings{"a"});
  CHECK(words_of("na\u00EFve Cafe\u0301") == Strings{"naive", "cafe"});
  CHECK(words_of("\u0130I\u0131") == Strings{"ii\u0131"});                 // no locale decides
  CHECK(words_of("\u03A3\u0391\u03A3") == Strings{"\u03C3\u03B1\u03C3"});  // no final sigma
  CHECK(words_of("\u00C6") == Strings{"\u00E6"});
  CHECK(words_of("\u4E00x\u4E8C") == Strings{"\u4E00", "x", "\u4E8C"});
  CHECK(words_of("\uF900") == Strings{"\u8C48"});  // a compatibility ideograph
  CHECK(words_of("\U00020000\U0002A6DF") == Strings{"\U00020000", "\U0002A6DF"});
  CHECK(words_of("\uD55C\uAC00") == Strings{"\u1112\u1161\u11AB\u1100\u1161"});
  CHECK(words_of("a\u2260b") == Strings{"a", "=", "b"});       // decomposes to '=' and a mark
  CHECK(words_of("\u2661\u2661") == Strings{"\u2661\u2661"});  // symbols are no punctuation
}

TEST_CASE("words without lower-casing keep case, accents and composition") {
  CHECK(words_of("H\u00C9llo", false) == Strings{"H\u00C9llo"});
  CHECK(words_of("e\u0301\uFE0F", false) == Strings{"e\u0301\uFE0F"});
  CHECK(words_of("\uAC00", false) == Strings{"\uAC00"});
  CHECK(words_of("a\u00AD\u200B\uFFFDb", false) == Strings{"ab"});
  CHECK(words_of("x\uF900y", false) == Strings{"x", "\uF900", "y"});
  CHECK(words_of("x\u037Ey\u2329", false) == Strings{"x", "\u037E", "y", "\u2329"});
  CHECK(words_of("a\u2260b", false) == Strings{"a\u2260b"});
}

TEST_CASE("kept combining characters are put into canonical order") {
  // U+1D165 has class 216, U+1D16D 226, U+302E 224, U+1B44 9, U+08D4 230; U+FE0F is a removed mark of class 0.
  CHECK(words_of("a\U0001D16D\U0001D165") == Strings{"a\U0001D165\U0001D16D"});
  CHECK(words_of("a\u08D4\u302E\u1B44") == Strings{"a\u1B44\u302E\u08D4"});
  CHECK(words_of("a\u08D4\u0301\u1B44") == Strings{"a\u1B44\u08D4"});  // a removed mark with a class is no barrier
  CHECK(words_of("a\u08D4\u200B\u1B44") == Strings{"a\u1B44\u08D4"});  // a control goes before anything else
  CHECK(words_of("a\u08D4\uFE0F\u1B44") == Strings{"a\u08D4\u1B44"});  // a removed starter is one
  CHECK(words_of("a\u08D4 \u1B44") == Strings{"a\u08D4", "\u1B44"});
  CHECK(words_of("\U0001D160\U0001D165") == Strings{"\U0001D158\U0001D165\U0001D16E\U0001D165"});
  CHECK(words_of("a\u08D4\u1B44", false) == Strings{"a\u08D4\u1B44"});
}

TEST_CASE("every code point does what codepoints.tsv says") {
  if (tests::no_shared()) return;
  const Table table;
  size_t wrong = 0, checked = 0;
  for (char32_t code = 0; code <= 0x10FFFF; ++code) {
    if (is_surrogate(code)) continue;
    const bool right = words_of("a" + utf8({code}) + "b") == table.words(code);
    if (!right && ++wrong < 10) MESSAGE("U+", std::hex, static_cast<uint32_t>(code), " ", table.kind(code));
    ++checked;
  }
  CHECK(checked == 0x110000 - 0x800);
  CHECK(wrong == 0);
}

TEST_CASE("the byte strings of invalid_utf8.jsonl decode as there") {
  if (tests::no_shared()) return;
  const std::string text = tests::slurp(tests::shared_path("data/golden/invalid_utf8.jsonl"));
  size_t rows = 0;
  for (const std::string_view line : split_lines(text)) {
    const nlohmann::json row = nlohmann::json::parse(line);
    const std::string hex = row["hex"];
    std::string bytes;
    for (size_t i = 0; i < hex.size(); i += 2)
      bytes.push_back(static_cast<char>(std::stoi(hex.substr(i, 2), nullptr, 16)));
    CAPTURE(hex);
    CHECK(utf8(decode(bytes)) == row["decoded"].get<std::string>());
    ++rows;
  }
  CHECK(rows == 13);
}

}  // namespace mixtape::data
