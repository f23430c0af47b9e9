// Bugs of other ports, one test each: shared/cases/tokenizer-and-files.md, whose numbers stand in the names. Each text
// is cut with a vocabulary of our own, which needs no other file, and gets the reference's ids with BERT's.
#include <doctest/doctest.h>

#include <clocale>
#include <string>
#include <vector>

#include "data/tokenizer.h"
#include "tests/bert_tokenizer.h"
#include "tests/shared.h"

namespace mixtape::data {
namespace {
using tests::bert_tokenizer;
using tests::repeated;
using Ids = std::vector<int32_t>;
using Strings = std::vector<std::string>;

const char* const our_vocabulary =
    "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nkant\n##o\nlush\n##i\n\u00E6\n##the\n##lb\n##ald\n\u0643\n##\u0648\n##\u062A\n"
    "##\u0627\nhokkaido\nnaive\ncafe\n\u0438\n\u03C3\n##\u03B1\n##\u03C3\nistanbul\nshoot\ntoo\nab\nx\n##y\n\u4E00\n"
    "\u4E2D\n\u6587\n\u5B50\n\u00BF\nqui\n##en\nrush\n##ers\n!\nthis\nis\na\nsequence\ntest\nthe\nquick\nbrown\n"
    "jumps\nvote\nhello\n##hell\n##oh\n##ello\n##a\n\u0935\n##\u0927\n##\u0928\n##\u0938\n##\u092D\nem\n##bed\n##ding\n"
    "##s\nand\nhill\n##cl\n##im\n##bing\nworld\n##world\n";

Strings pieces_of(const Tokenizer& tokenizer, const std::string& text) {
  Strings out;
  for (const std::string_view piece : tokenizer.pieces(text, false)) out.emplace_back(piece);
  return out;
}

Tokenizer ours(TokenizerOptions options = {true, true, 0}) {
  return Tokenizer(Vocab::parse(our_vocabulary, "ours.txt"), options);
}

void check_case(const std::string& text, const Strings& pieces, const Ids& ids) {
  static const Tokenizer own = ours();
  CHECK(pieces_of(own, text) == pieces);
  if (tests::no_shared()) return;
  static const Tokenizer reference = bert_tokenizer();
  CHECK(pieces_of(reference, text) == pieces);
  CHECK(reference.encode(text, false) == ids);
}

Strings unknown(size_t count) { return Strings(count, "[UNK]"); }

}  // namespace

TEST_CASE("tokenizer case 1: accented letters are reduced, not dropped") {
  check_case("Kant\u014D", {"kant", "##o"}, {26044, 2080});
}

TEST_CASE("tokenizer case 2: two marks on one letter") {
  check_case("l\u01DCshi", {"lush", "##i"}, {16299, 2072});
  check_case("lu\u0308\u0300shi", {"lush", "##i"}, {16299, 2072});
}

TEST_CASE("tokenizer case 4: a letter without decomposition is lower-cased") {
  check_case("\u00C6thelbald", {"\u00E6", "##the", "##lb", "##ald"}, {1097, 10760, 20850, 19058});
}

TEST_CASE("tokenizer case 5: a rare letter makes its whole word unknown") {
  check_case("\u0643\u0648\u062A\u0627 \u0633\u0644\u0648\u062F\u0648\u06A0",
             {"\u0643", "##\u0648", "##\u062A", "##\u0627", "[UNK]"}, {1293, 29836, 29817, 25573, 100});
}

TEST_CASE("tokenizer case 7: accents go also where they are part of the letter") {
  check_case("Hokkaid\u014D", {"hokkaido"}, {20826});
}

TEST_CASE("tokenizer case 8: stripping accents follows lower-casing") {
  check_case("na\u00EFve", {"naive"}, {15743});
  check_case("caf\u00E9", {"cafe"}, {7668});
}

TEST_CASE("tokenizer case 10: decomposition comes from our table, never from the host") {
  std::setlocale(LC_ALL, "C");
  check_case("cafe\u0301", {"cafe"}, {7668});
}

TEST_CASE("tokenizer case 11: a mark that makes another letter of its alphabet goes too") {
  check_case("\u0439", {"\u0438"}, {1188});
}

TEST_CASE("tokenizer case 13: a final sigma is lower-cased as any other") {
  check_case("\u03A3\u0391\u03A3", {"\u03C3", "##\u03B1", "##\u03C3"}, {1173, 14608, 29733});
}

TEST_CASE("tokenizer case 14: no locale decides about the lower case of I") {
  std::setlocale(LC_ALL, "tr_TR.UTF-8");  // where the machine has it; else it changes nothing
  check_case("ISTANBUL", {"istanbul"}, {9960});
  std::setlocale(LC_ALL, "C");
}

TEST_CASE("tokenizer case 16: a control character of a wrong code page is removed") {
  check_case("shoot\u0097 TOO", {"shoot", "too"}, {5607, 2205});
}

TEST_CASE("tokenizer case 17: format characters go, unassigned ones stay") {
  check_case("a\u00ADb", {"ab"}, {11113});
  check_case("\U0001F92A", unknown(1), {100});
}

TEST_CASE("tokenizer case 19: a private-use character goes") { check_case("x\U000FE4FAy", {"x", "##y"}, {1060, 2100}); }

TEST_CASE("tokenizer case 20: U+FFFD goes, ideographs stand alone") {
  check_case("\u8FD9\u662F\u4E00\u4E2A\uFFFD\uFFFD\uFFFD\u4E2D\u6587\u53E5\u5B50",
             {"[UNK]", "[UNK]", "\u4E00", "[UNK]", "\u4E2D", "\u6587", "[UNK]", "\u5B50"},
             {100, 100, 1740, 100, 1746, 1861, 100, 1816});
}

TEST_CASE("tokenizer case 22: emoji newer than a table are unknown, not dropped") {
  check_case("\U0001F971 \U0001F90F \U0001F9BE", unknown(3), {100, 100, 100});
  check_case("\U0001F4F7\U0001F90F", unknown(1), {100});
}

TEST_CASE("tokenizer case 23: a lone surrogate is dropped, a character above U+FFFF is one") {
  check_case("\xED\xA0\xBC", {}, {});
  check_case("\U0001F337", unknown(1), {100});
}

TEST_CASE("tokenizer case 25: the inverted question mark is a word of its own") {
  check_case("\u00BFQui\u00E9n", {"\u00BF", "qui", "##en"}, {1094, 21864, 2368});
}

TEST_CASE("tokenizer case 26: symbols are no punctuation") {
  check_case("vote\u2661\u2661", unknown(1), {100});
  check_case("Rushers!\u2665\u2661", {"rush", "##ers", "!", "[UNK]"}, {5481, 2545, 999, 100});
}

TEST_CASE("tokenizer case 28, 29: ideographs above U+FFFF stand alone") {
  check_case("\U00020000\U0002A6DF", unknown(2), {100, 100});
}

TEST_CASE("tokenizer case 31: [MASK] is a special token") {
  check_case("This is a [MASK] sequence", {"this", "is", "a", "[MASK]", "sequence"}, {2023, 2003, 1037, 103, 5537});
}

TEST_CASE("tokenizer case 32: special tokens are matched before lower-casing") {
  check_case("The quick brown [MASK] jumps", {"the", "quick", "brown", "[MASK]", "jumps"},
             {1996, 4248, 2829, 103, 14523});
}

TEST_CASE("tokenizer case 34: a special token beside uncommon punctuation") {
  check_case("\uFF03[SEP]", {"[UNK]", "[SEP]"}, {100, 102});
}

TEST_CASE("tokenizer case 35: a special token inside a text, where they are matched and where they are not") {
  check_case("This is[SEP]a test", {"this", "is", "[SEP]", "a", "test"}, {2023, 2003, 102, 1037, 3231});
  const Tokenizer untrusting = ours({true, false, 0});
  CHECK(untrusting.encode("This is[SEP]a test", false)[2] != untrusting.vocab().special().sep);
}

TEST_CASE("tokenizer case 37: special ids are looked up by name") {
  const Tokenizer other(Vocab::parse("a\n[MASK]\n[SEP]\n[UNK]\n[CLS]\n[PAD]\n", "other.txt"), {true, true, 0});
  CHECK(other.encode("a b [MASK]") == Ids{4, 0, 3, 1, 2});
  CHECK(other.vocab().special().pad == 5);
}

TEST_CASE("tokenizer case 38: an unknown tail makes the whole word unknown") {
  check_case("helloworld\U0001F600", unknown(1), {100});
}

TEST_CASE("tokenizer case 40: 100 characters are cut into pieces, 105 are unknown") {
  Strings pieces{"hello"};
  Ids ids{7592};
  for (int i = 0; i < 9; ++i) {
    for (const char* piece : {"##hell", "##oh", "##ello"}) pieces.emplace_back(piece);
    ids.insert(ids.end(), {18223, 11631, 15350});
  }
  pieces.insert(pieces.end(), {"##hell", "##o"});
  ids.insert(ids.end(), {18223, 2080});
  check_case(repeated("Hello", 20), pieces, ids);
  check_case(repeated("Hello", 21), unknown(1), {100});
}

TEST_CASE("tokenizer case 41: a long word is never passed through whole") {
  check_case(std::string(101, 'a'), unknown(1), {100});
}

TEST_CASE("tokenizer case 43: marks of Indic scripts go, and cutting makes progress") {
  check_case("\u0935\u0927\u0928\u0938\u092D", {"\u0935", "##\u0927", "##\u0928", "##\u0938", "##\u092D"},
             {1335, 29862, 29863, 29874, 29866});
}

TEST_CASE("tokenizer case 44: longer words") {
  check_case("embeddings and hillclimbing", {"em", "##bed", "##ding", "##s", "and", "hill", "##cl", "##im", "##bing"},
             {7861, 8270, 4667, 2015, 1998, 2940, 20464, 5714, 10472});
}

TEST_CASE("tokenizer case 47: cutting leaves room for [CLS] and [SEP]") {
  const Tokenizer own = ours({true, false, 3});
  CHECK(own.encode(repeated("Hello", 20)) == Ids{2, own.vocab().find("hello"), 3});
  if (!tests::no_shared()) CHECK(bert_tokenizer({true, false, 3}).encode(repeated("Hello", 20)) == Ids{101, 7592, 102});
}

TEST_CASE("tokenizer case 49: a text that is longer than the model is cut by max_length") {
  CHECK(ours({true, false, 512}).encode(repeated("hello ", 600)).size() == 512);
  CHECK(ours({true, false, 0}).encode(repeated("hello ", 600)).size() == 602);
}

TEST_CASE("tokenizer case 50: a cased setting keeps the case, and unknown words have an id") {
  CHECK(pieces_of(ours({false, false, 0}), "Hello hello") == Strings{"[UNK]", "hello"});
  if (!tests::no_shared()) CHECK(bert_tokenizer({false, false, 0}).encode("Hello hello", false) == Ids{100, 7592});
}

}  // namespace mixtape::data
