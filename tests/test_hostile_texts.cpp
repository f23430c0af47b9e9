// Hostile texts (docs: faults.md F18): 30 of them, each in a file of every format between two plain rows. Every reader
// gives three rows, the bytes as they stand and the right lines; predicting and tokenizing answer line for line.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "data/dataset.h"
#include "data/tokenizer.h"
#include "tests/tiny_run.h"

namespace mixtape::data {
namespace {
using namespace std::string_literals;
using tests::repeated;
using tests::TempFolder;

struct Hostile {
  const char* what;
  std::string text;
  std::vector<int32_t> ids;  ///< without special tokens, under the vocabulary below: a is 4, b is 5, [UNK] is 1
};

const std::vector<Hostile> hostile_texts = {
    {"a byte that begins nothing", "a\xFF", {4}},
    {"a lone continuation byte", "\x80 a", {4}},
    {"a sequence that is cut", "a\xE2\x82", {4}},
    {"an overlong slash", "a\xC0\xAF", {4}},
    {"beyond the last code point", "a\xF4\x90\x80\x80 b", {4, 5}},
    {"a lone high surrogate", "\xED\xA0\xBD", {}},
    {"a pair of surrogates, each encoded", "a \xED\xA0\xBD\xED\xB8\x80 b", {4, 5}},
    {"Latin-1", "caf\xE9", {1}},
    {"NUL", "a\0b"s, {1}},
    {"NUL alone", "\0"s, {}},
    {"a byte order mark in the middle", "a\uFEFFb", {1}},
    {"a byte order mark first", "\uFEFFa", {4}},
    {"a lone carriage return", "a\rb", {4, 5}},
    {"a carriage return first", "\ra", {4}},
    {"U+2028", "a\u2028b", {4, 5}},
    {"U+2029", "a\u2029b", {4, 5}},
    {"U+0085", "a\u0085b", {1}},
    {"vertical tab and form feed", "a\vb\fa", {1}},
    {"file, group and record separators", "a\x1C\x1D\x1E\x1F", {4}},
    {"nothing", "", {}},
    {"blanks alone", "   \u00A0\u3000 ", {}},
    {"a megabyte without a blank", std::string(1'000'000, 'a'), {1}},
    {"right to left, with marks of direction", "\u202Ea\u202C \u05D0\u05D1", {4, 1}},
    {"an emoji of a family, joined", "\U0001F468\u200D\U0001F469\u200D\U0001F467", {1}},
    {"a flag and a skin tone", "\U0001F1E9\U0001F1EA \U0001F44D\U0001F3FE", {1, 1}},
    {"a thousand combining marks", "a" + repeated("\u0301", 1000), {4}},
    {"combining marks alone", "\u0301\u0302", {}},
    {"a private and a noncharacter code point", "a\uE000 \uFFFE", {4, 1}},
    {"escape codes of a terminal", "\x1B[2Ja", {1, 1}},
    {"quotes, commas and backslashes", "\"a\",\"b\"\\n", {1, 4, 1, 1, 1, 5, 1, 1, 1}},
};

const std::string vocabulary = "[PAD]\n[UNK]\n[CLS]\n[SEP]\na\nb\n";

std::string csv_field(const std::string& text) {
  std::string out = "\"";
  for (const char c : text) out += c == '"' ? "\"\"" : std::string(1, c);
  return out + "\"";
}

std::string json_string(const std::string& text) {
  constexpr char digits[] = "0123456789abcdef";
  std::string out = "\"";
  for (const char c : text) {
    const unsigned char byte = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') out += '\\';
    out += byte < 0x20 ? "\\u00"s + digits[byte >> 4] + digits[byte & 15] : std::string(1, c);
  }
  return out + "\"";
}

/// The text in the second of three rows of a training file.
void write(const TempFolder& folder, const std::string& text, const std::string& end) {
  folder.write("mapping.txt", "0\tno\n1\tyes\n");
  folder.write("train_text.txt", "a" + end + text + end + "b" + end);
  folder.write("train_labels.txt", "0" + end + "1" + end + "0" + end);
  folder.write("train.tsv", "text\tlabel" + end + "a\tno" + end + text + "\tyes" + end + "b\tno" + end);
  folder.write("train.csv", "text,label" + end + "a,no" + end + csv_field(text) + ",yes" + end + "b,no" + end);
  std::string json;
  for (const std::string& row : {"a"s, text, "b"s}) {
    json += "{\"text\":" + json_string(row) + ",\"label\":\"" + (row == "a" || row == "b" ? "no" : "yes") + "\"}" + end;
  }
  folder.write("train.jsonl", json);
}
}  // namespace

TEST_CASE("F18: hostile texts come through every reader as they stand") {
  CHECK(hostile_texts.size() == 30);
  const Tokenizer tokenizer(Vocab::parse(vocabulary, "v"));
  for (const Hostile& hostile : hostile_texts) {
    CAPTURE(hostile.what);
    CHECK(tokenizer.encode(hostile.text, false) == hostile.ids);
    for (const std::string end : {"\n", "\r\n"}) {
      const TempFolder folder;
      write(folder, hostile.text, end);
      for (const DataFormat format : {DataFormat::tweet_eval, DataFormat::tsv, DataFormat::csv, DataFormat::jsonl}) {
        CAPTURE(static_cast<int>(format));
        const Dataset data = read_dataset(format, folder.path(), "train");
        CHECK(data.texts == std::vector<std::string>{"a", hostile.text, "b"});
        CHECK(data.labels == std::vector<int32_t>{0, 1, 0});
        const bool header = format == DataFormat::tsv || format == DataFormat::csv;
        CHECK(data.lines == (header ? std::vector<size_t>{2, 3, 4} : std::vector<size_t>{1, 2, 3}));
      }
    }
  }
}

TEST_CASE("F18: a fault behind a hostile text has its own line") {
  for (const Hostile& hostile : hostile_texts) {
    CAPTURE(hostile.what);
    const TempFolder folder;
    write(folder, hostile.text, "\n");
    for (const auto& [format, name, row] :
         {std::tuple(DataFormat::tsv, "train.tsv", "c\twhat\n"), std::tuple(DataFormat::csv, "train.csv", "c,what\n"),
          std::tuple(DataFormat::jsonl, "train.jsonl", "{\"text\":\"c\",\"label\":\"what\"}\n")}) {
      folder.write(name, tests::slurp(folder.path(name)) + row);
      const auto error = tests::error_of([&, which = format] { (void)read_dataset(which, folder.path(), "train"); });
      REQUIRE(error);
      const std::string line = format == DataFormat::jsonl ? ":4: " : ":5: ";
      CHECK(tests::contains(error->what(), folder.path(name) + line));
    }
  }
}

TEST_CASE("F18: tokenize and predict answer line for line") {
  std::string input;
  for (const Hostile& hostile : hostile_texts) input += hostile.text + "\n";
  const TempFolder folder;
  const std::string vocab = folder.write("v.txt", vocabulary);
  const std::string tokens = tests::run_program("tokenize --vocab '" + vocab + "'", input).out;
  CHECK(std::count(tokens.begin(), tokens.end(), '\n') == 30);
  const tests::TinyRun tiny;
  const std::string run = tiny.path("run");
  REQUIRE(tests::run_program("train '" + tiny.config_path() + "' -q -s '" + run + "' --set trainer.max_steps=1")
              .exit_code == 0);
  const tests::ProgramResult labels = tests::run_program("predict '" + run + "' --format label", input);
  CHECK(labels.exit_code == 0);
  CHECK(std::count(labels.out.begin(), labels.out.end(), '\n') == 30);
}

}  // namespace mixtape::data
