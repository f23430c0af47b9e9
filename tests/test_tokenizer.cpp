// The vocabulary, WordPiece and the whole tokenizer on vocabularies made here; golden ids are in
// test_tokenizer_golden.cpp.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "data/tokenizer.h"
#include "tests/shared.h"

namespace mixtape::data {
namespace {
using tests::contains;
using tests::error_of;
using tests::error_text;
using Ids = std::vector<int32_t>;
using Pieces = std::vector<std::string_view>;

// The specials stand neither at 0 nor in BERT's order: nobody may assume their ids.
const std::string small_vocab =
    "a\nb\n[SEP]\n[CLS]\n[UNK]\nhello\n##world\nun\n##aff\n##able\n##a\n,\n!\n[PAD]\n[MASK]\n\u0939\n##\u0939\ncafe\n#"
    "\n[\n]\nsep\n";

Tokenizer small(TokenizerOptions options = {}) { return Tokenizer(Vocab::parse(small_vocab, "small.txt"), options); }
}  // namespace

TEST_CASE("a vocabulary gives ids by line, and its special tokens by name") {
  const Vocab vocab = Vocab::parse(small_vocab, "small.txt");
  CHECK(vocab.size() == 22);
  CHECK(vocab.find("a") == 0);
  CHECK(vocab.find("##world") == 6);
  CHECK(vocab.find("nowhere") == -1);
  CHECK(vocab.token(5) == "hello");
  CHECK(vocab.special().sep == 2);
  CHECK(vocab.special().cls == 3);
  CHECK(vocab.special().unk == 4);
  CHECK(vocab.special().pad == 13);
  CHECK(vocab.special().mask == 14);
  CHECK(Vocab::parse("[PAD]\n[UNK]\n[CLS]\n[SEP]", "x").special().mask == -1);  // no last LF, no [MASK]
  CHECK(contains(error_text([&] { (void)vocab.token(22); }), "E-VOCAB-ID"));
  CHECK(contains(error_text([&] { (void)vocab.token(-1); }), "small.txt, which has 22 tokens"));
}

TEST_CASE("a vocabulary may have CRLF lines and a byte order mark") {
  const Vocab vocab = Vocab::parse("\xEF\xBB\xBF[PAD]\r\n[UNK]\r\n[CLS]\r\n[SEP]\r\na\r\n", "x");
  CHECK(vocab.find("[PAD]") == 0);
  CHECK(vocab.find("a") == 4);
}

TEST_CASE("a bad vocabulary is refused with file and line") {
  struct Case {
    std::string text, code, words;
  };
  const std::string head = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n";
  std::string long_vocab = head;
  for (size_t i = 0; i < Vocab::max_tokens; ++i) long_vocab += std::to_string(i) + "\n";
  const std::vector<Case> cases = {
      {"", "E-VOCAB-EMPTY", "v.txt: no tokens"},
      {head + "a\nb\na\n", "E-VOCAB-DUPLICATE", "v.txt:7: the token of line 5 again"},
      {head + "a\n\nb\n", "E-VOCAB-EMPTY", "v.txt:6: blank line"},
      {head + "a\n\n", "E-VOCAB-EMPTY", "v.txt:6"},
      {head + "\xFF\n", "E-VOCAB-UTF8", "v.txt:5"},
      {"[PAD]\n[CLS]\n[SEP]\na\n", "E-VOCAB-SPECIAL", "no [UNK]"},
      {"[PAD]\n[UNK]\n[SEP]\na\n", "E-VOCAB-SPECIAL", "no [CLS]"},
      {"[PAD]\n[UNK]\n[CLS]\na\n", "E-VOCAB-SPECIAL", "v.txt:4: the last line is reached and there was no [SEP]"},
      {"[UNK]\n[CLS]\n[SEP]\na\n", "E-VOCAB-SPECIAL", "no [PAD]"},
      {std::string(Vocab::max_bytes + 1, 'a'), "E-VOCAB-SIZE", "bytes"},
      {long_vocab, "E-VOCAB-SIZE", "v.txt:1048577"},
  };
  for (const Case& c : cases) {
    const auto error = error_of([&] { (void)Vocab::parse(c.text, "v.txt"); });
    REQUIRE(error);
    CAPTURE(error->what());
    CHECK(error->kind() == ErrorKind::data);
    CHECK(error->code() == c.code);
    CHECK(contains(error->what(), c.words));
  }
}

TEST_CASE("a vocabulary file: missing, a directory, too large") {
  const tests::TempFolder folder;
  CHECK(contains(error_text([&] { (void)Vocab::load(folder.path("none.txt")); }),
                 "E-VOCAB-MISSING: " + folder.path("none.txt")));
  CHECK(contains(error_text([&] { (void)Vocab::load(folder.path()); }), "is a directory"));
  folder.write("big.txt", std::string(Vocab::max_bytes + (1 << 17), 'a'));
  CHECK(error_of([&] { (void)Vocab::load(folder.path("big.txt")); })->exit_code() == 3);
  folder.write("v.txt", small_vocab);
  CHECK(Vocab::load(folder.path("v.txt")).size() == 22);
}

TEST_CASE("WordPiece takes the longest piece, and gives up a word as a whole") {
  const Tokenizer tokenizer = small();
  const auto pieces = [&](std::string_view text) { return tokenizer.pieces(text, false); };
  CHECK(pieces("Hello") == Pieces{"hello"});
  CHECK(pieces("helloworld") == Pieces{"hello", "##world"});
  CHECK(pieces("unaffable") == Pieces{"un", "##aff", "##able"});
  CHECK(pieces("una") == Pieces{"un", "##a"});  // "##aff" is tried and goes back to "##a"
  CHECK(pieces("unab") == Pieces{"[UNK]"});     // the tail is unknown: the whole word
  CHECK(pieces("helloworlds a") == Pieces{"[UNK]", "a"});
  CHECK(pieces("worldx") == Pieces{"[UNK]"});
  CHECK(pieces("##world") == Pieces{"#", "#", "[UNK]"});  // '#' is punctuation: no continuation can be typed
  CHECK(pieces("caf\u00E9,HELLO!") == Pieces{"cafe", ",", "hello", "!"});
  CHECK(pieces("\u0939\u0939") == Pieces{"\u0939", "##\u0939"});  // several bytes a character
  CHECK(pieces("\u0939\u0938") == Pieces{"[UNK]"});               // shares its first two bytes with a known one
  CHECK(pieces("") == Pieces{});
  CHECK(pieces("\u200B\xFF") == Pieces{});
}

TEST_CASE("a word of 100 characters is cut into pieces, one of 101 is unknown") {
  const Tokenizer tokenizer = small();
  CHECK(tokenizer.encode(std::string(100, 'a'), false).size() == 100);
  CHECK(tokenizer.encode(std::string(101, 'a'), false) == Ids{4});
  std::string hindi;  // characters count, not bytes
  for (int i = 0; i < 100; ++i) hindi += "\u0939";
  CHECK(tokenizer.encode(hindi, false).size() == 100);
  CHECK(tokenizer.encode(hindi + "\u0301", false).size() == 100);  // the accent is removed before the count
  CHECK(tokenizer.encode(hindi + "\u0939", false) == Ids{4});
}

TEST_CASE("a vocabulary without continuation pieces makes progress") {
  const Tokenizer tokenizer(Vocab::parse("[PAD]\n[UNK]\n[CLS]\n[SEP]\na\n", "x"));
  CHECK(tokenizer.encode("a aa", false) == Ids{4, 1});
}

TEST_CASE("special tokens frame the text and survive any limit") {
  const auto ids = [](int64_t max_length, std::string_view text) {
    return small({true, false, max_length}).encode(text);
  };
  CHECK(ids(0, "a b a b") == Ids{3, 0, 1, 0, 1, 2});
  CHECK(ids(6, "a b a b") == Ids{3, 0, 1, 0, 1, 2});
  CHECK(ids(5, "a b a b") == Ids{3, 0, 1, 0, 2});
  CHECK(ids(3, "unaffable") == Ids{3, 7, 2});
  CHECK(ids(2, "a b") == Ids{3, 2});
  CHECK(ids(4, "") == Ids{3, 2});
  CHECK(small({true, false, 2}).encode("a b a", false) == Ids{0, 1});
  CHECK(small({true, false, 1}).encode("a b a", false) == Ids{0});
  CHECK(error_of([&] { (void)ids(1, "a"); })->kind() == ErrorKind::config);
  CHECK(contains(error_text([&] { (void)ids(-1, "a"); }), "E-TOKENIZER-LENGTH: max_length must be >= 0"));
}

TEST_CASE("special tokens in a text count only when asked, and are matched before anything else") {
  const Tokenizer off = small(), on = small({true, true, 0});
  CHECK(off.pieces("a[SEP]b", false) == Pieces{"a", "[", "sep", "]", "b"});
  CHECK(on.pieces("a[SEP]b", false) == Pieces{"a", "[SEP]", "b"});
  CHECK(on.pieces("[MASK][PAD][UNK][CLS]", false) == Pieces{"[MASK]", "[PAD]", "[UNK]", "[CLS]"});
  CHECK(on.pieces("[[SEP]] [sep]", false) == Pieces{"[", "[SEP]", "]", "[", "sep", "]"});  // case counts
  CHECK(on.pieces("[SE\u200BP]", false) == Pieces{"[", "sep", "]"});                       // the raw text counts
  CHECK(on.pieces("un[SEP]aff", false) == Pieces{"un", "[SEP]", "[UNK]"});  // never a continuation across it
  CHECK(small({true, true, 3}).encode("a[SEP]b[SEP]") == Ids{3, 0, 2});
  const Tokenizer no_mask(Vocab::parse("[PAD]\n[UNK]\n[CLS]\n[SEP]\na\n", "x"), {true, true, 0});
  CHECK(no_mask.encode("a[MASK]a", false) == Ids{4, 1, 1, 1, 4});
}

TEST_CASE("lower-casing and accent stripping go together") {
  const Tokenizer cased(Vocab::parse("[PAD]\n[UNK]\n[CLS]\n[SEP]\nCaf\u00E9\ncafe\ncaf\u00E9\n", "x"),
                        {false, false, 0});
  CHECK(cased.encode("Caf\u00E9 caf\u00E9 cafe Cafe", false) == Ids{4, 6, 5, 1});
  const Tokenizer uncased(Vocab::parse("[PAD]\n[UNK]\n[CLS]\n[SEP]\nCaf\u00E9\ncafe\ncaf\u00E9\n", "x"));
  CHECK(uncased.encode("Caf\u00E9 caf\u00E9 cafe Cafe", false) == Ids{5, 5, 5, 5});
}

TEST_CASE("a long text and a moved tokenizer") {
  Tokenizer first = small({true, true, 0});
  const Tokenizer second = std::move(first);
  std::string text;
  for (int i = 0; i < (1 << 17); ++i) text += "hello, ";
  const Ids ids = second.encode(text + "[MASK]", false);
  CHECK(ids.size() == (2u << 17) + 1);
  CHECK(ids.back() == 14);
}

}  // namespace mixtape::data
