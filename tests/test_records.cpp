// The parsers of csv, tsv and jsonl: what they read, and every fault with its line; hostile bytes come through as they
// are.
#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "data/dataset.h"
#include "data/file.h"
#include "data/records.h"
#include "tests/shared.h"

namespace mixtape::data {
namespace {
using tests::contains;
using namespace std::string_literals;

struct Parser {
  const char* name;
  Records (*parse)(std::string_view);
};
const std::vector<Parser> parsers = {{"csv", parse_csv}, {"tsv", parse_tsv}, {"jsonl", parse_jsonl}};

struct Good {
  const char* format;
  std::string bytes;
  std::vector<Record> rows;
};
const std::vector<Good> good = {
    {"csv", "text,label\na b,x\nc,y\n", {{"a b", "x", 2}, {"c", "y", 3}}},
    {"csv", "text,label\na,x", {{"a", "x", 2}}},
    {"csv", "\xEF\xBB\xBFtext,label\r\na,x\r\nb,y\r\n", {{"a", "x", 2}, {"b", "y", 3}}},
    {"csv", "label,id,text\nx,1,a\n", {{"a", "x", 2}}},
    {"csv", "\"text\",\"label\"\n\"a, \"\"b\"\"\",\"x\"\r\n", {{"a, \"b\"", "x", 2}}},
    {"csv", "text,label\n\"a\nb\r\nc\",x\n\"\",y\n", {{"a\nb\r\nc", "x", 2}, {"", "y", 5}}},
    {"csv", "text,label\n,x\na\tb,y\n", {{"", "x", 2}, {"a\tb", "y", 3}}},
    {"csv", "text,label\na\rb,x\n", {{"a\rb", "x", 2}}},
    {"csv", "label,text\nx,a\r\n", {{"a", "x", 2}}},
    {"csv", "text,label\na,x\r\n", {{"a", "x\r", 2}}},  // stray: the reader of labels refuses it
    {"csv", "text,label\n", {}},
    {"tsv", "text\tlabel\na, \"b\"\tx\n", {{"a, \"b\"", "x", 2}}},
    {"tsv", "label\ttext\tx\r\n1\t\"\t\r\n0\t\t2", {{"\"", "1", 2}, {"", "0", 3}}},
    {"tsv", "text\tlabel\na\tx\r\n", {{"a", "x\r", 2}}},
    {"jsonl", "{\"text\": \"a\", \"label\": \"x\"}\n{\"label\":1,\"text\":\"\"}", {{"a", "x", 1}, {"", "1", 2}}},
    {"jsonl",
     " { \"id\" : [1, -2.5e+3, {\"text\": null}, true, []], \"text\" : \"a\\n\\\"\\\\\\/\\t\", \"label\" : -1 } \r\n",
     {{"a\n\"\\/\t", "-1", 1}}},
    {"jsonl", "{\"text\":\"\\u00e4\\ud83d\\ude00\\u0000\",\"label\":0}\n", {{"\u00e4\U0001F600\0"s, "0", 1}}},
    {"jsonl", "{\"text\":\"\\ud83d \\ude00 \\ud83d\\u0041\",\"label\":0}\n", {{"\uFFFD \uFFFD \uFFFDA", "0", 1}}},
    {"jsonl", "\xEF\xBB\xBF{\"\\u0074ext\":\"\xFF\",\"label\":\"\"}\n", {{"\xFF", "", 1}}},
    {"jsonl", "", {}},
};

struct Bad {
  const char* format;
  std::string bytes;
  size_t line;
  std::string code, words;
};

const std::vector<Bad> bad = {
    {"csv", "", 1, "E-DATA-HEADER", "one must be \"text\""},
    {"csv", "a b,x\nc,y\n", 1, "E-DATA-HEADER", "it has \"a b\", \"x\""},
    {"csv", "Text,label\n", 1, "E-DATA-HEADER", "it has \"Text\", \"label\""},
    {"csv", "text;label\n", 1, "E-DATA-HEADER", "\"text;label\""},
    {"csv", "text,label,text\n", 1, "E-DATA-HEADER", "two columns"},
    {"csv", "text\na\n", 1, "E-DATA-HEADER", "\"label\""},
    {"csv", "\xFF\xFEt\0e\0"s, 1, "E-DATA-HEADER", "UTF-16"},
    {"csv", "text,label\na,b,x\n", 2, "E-DATA-COLUMNS", "3 fields, but the header has 2 columns"},
    {"csv", "text,label\na,x\nb\n", 3, "E-DATA-COLUMNS", "1 field, "},
    {"csv", "text,label\na,x\n\nb,y\n", 3, "E-DATA-COLUMNS", "a blank line"},
    {"csv", "text,label\na,x\n\n", 3, "E-DATA-COLUMNS", "a blank line"},
    {"csv", "text,label\nhe said \"hi\",x\n", 2, "E-DATA-QUOTE", "inside a field"},
    {"csv", "text,label\n\"a\" b,x\n", 2, "E-DATA-QUOTE", "neither a comma nor the end"},
    {"csv", "text,label\na,x\n\"b,y\nc,z\n", 3, "E-DATA-QUOTE", "never closed"},
    {"csv", "text,label\n\"a,x\nb\"c,y\n", 3, "E-DATA-QUOTE", "opened in line 2"},
    {"csv", "text,label\n\"" + std::string(max_text_line + 2, 'a') + "\",x\n", 2, "E-DATA-LINE", "quote not closed"},
    {"csv", "text,label\n" + std::string(max_text_line, 'a') + ",x\n", 2, "E-DATA-LINE", "line end missing"},
    {"tsv", "text,label\na,x\n", 1, "E-DATA-HEADER", "\"text,label\""},
    {"tsv", "text\tlabel\na\tb\tx\n", 2, "E-DATA-COLUMNS", "3 fields, but the header has 2 columns; no text may hold"},
    {"tsv", "text\tlabel\na x\n", 2, "E-DATA-COLUMNS", "1 field"},
    {"jsonl", "{\"text\":\"a\",\"label\":0}\n\n", 2, "E-DATA-JSON", "a blank line"},
    {"jsonl", "[1]\n", 1, "E-DATA-JSON", "an object"},
    {"jsonl", "{\"text\":\"a\"}\n", 1, "E-DATA-JSON", "no \"label\""},
    {"jsonl", "{\"label\":0}\n", 1, "E-DATA-JSON", "no \"text\""},
    {"jsonl", "{}", 1, "E-DATA-JSON", "no \"text\""},
    {"jsonl", "{\"text\":5,\"label\":0}\n", 1, "E-DATA-JSON", "\"text\" must be a string"},
    {"jsonl", "{\"text\":\"a\",\"label\":1.0}\n", 1, "E-DATA-JSON", "not 1.0"},
    {"jsonl", "{\"text\":\"a\",\"label\":1e2}\n", 1, "E-DATA-JSON", "not 1e2"},
    {"jsonl", "{\"text\":\"a\",\"label\":true}\n", 1, "E-DATA-JSON", "a string or an integer"},
    {"jsonl", "{\"text\":\"a\",\"label\":[0]}\n", 1, "E-DATA-JSON", "a string or an integer"},
    {"jsonl", "{\"text\":\"a\",\"text\":\"b\",\"label\":0}\n", 1, "E-DATA-JSON", "twice"},
    {"jsonl", "{\"text\":\"a\",\"label\":0} x\n", 1, "E-DATA-JSON", "follows the object, at byte 24"},
    {"jsonl", "{\"text\":\"a\",\"label\":0,}\n", 1, "E-DATA-JSON", "expected a string at byte 23"},
    {"jsonl", "{\"text\":\"a\" \"label\":0}\n", 1, "E-DATA-JSON", "a comma or }"},
    {"jsonl", "{\"text\":\"a\",\"label\":01}\n", 1, "E-DATA-JSON", "a number"},
    {"jsonl", "{\"text\":\"a\",\"label\":NaN}\n", 1, "E-DATA-JSON", "a value"},
    {"jsonl", "{\"text\":\"a\tb\",\"label\":0}\n", 1, "E-DATA-JSON", "a control character"},
    {"jsonl", "{\"text\":\"\\x\",\"label\":0}\n", 1, "E-DATA-JSON", "a wrong escape"},
    {"jsonl", "{\"text\":\"\\u12\",\"label\":0}\n", 1, "E-DATA-JSON", "a wrong escape"},
    {"jsonl", "{\"text\":\"a\n", 1, "E-DATA-JSON", "not closed"},
    {"jsonl", "{\"text\":\"a\\", 1, "E-DATA-JSON", "a wrong escape"},
    {"jsonl", "{\"a\":" + std::string(100, '[') + std::string(100, ']') + "}", 1, "E-DATA-JSON", "64 levels"},
    {"jsonl", "{\"text\":\"" + std::string(max_text_line, 'a') + "\",\"label\":0}\n", 1, "E-DATA-LINE",
     "1048597 bytes"},
};

Records parse(const std::string& format, std::string_view bytes) {
  for (const Parser& parser : parsers) {
    if (parser.name == format) return parser.parse(bytes);
  }
  return {};
}
}  // namespace

TEST_CASE("records: rows, columns, quotes and escapes") {
  for (const Good& c : good) {
    CAPTURE(c.bytes);
    const Records records = parse(c.format, c.bytes);
    CHECK_MESSAGE(!records.fault, (records.fault ? records.fault->what : ""));
    REQUIRE(records.rows.size() == c.rows.size());
    for (size_t i = 0; i < c.rows.size(); ++i) {
      CHECK(records.rows[i].text == c.rows[i].text);
      CHECK(records.rows[i].label == c.rows[i].label);
      CHECK(records.rows[i].line == c.rows[i].line);
    }
  }
}

TEST_CASE("records: faults have a line, a code and a remedy") {
  for (const Bad& c : bad) {
    CAPTURE(c.bytes.substr(0, 100));
    const Records records = parse(c.format, c.bytes);
    REQUIRE(records.fault.has_value());
    CAPTURE(records.fault->what);
    CHECK(records.fault->line == c.line);
    CHECK(records.fault->code == c.code);
    CHECK(contains(records.fault->what, c.words));
  }
}

TEST_CASE("records: what might be a text stands in no message") {
  for (const Parser& parser : parsers) {
    const Records records = parser.parse("this is a first row without any header, and quite private\tx\nb\tx\n");
    REQUIRE(records.fault.has_value());
    CHECK_FALSE(contains(records.fault->what, "private"));
  }
}

TEST_CASE("records: any cut and any flipped byte gives rows or a fault") {
  for (const Good& c : good) {
    for (size_t cut = 0; cut <= c.bytes.size(); ++cut) (void)parse(c.format, c.bytes.substr(0, cut));
    for (size_t at = 0; at < c.bytes.size(); ++at) {
      for (const char other : {'\0', '\n', '\r', '"', '\\', ',', '\t', '{', '}', '[', '\xFF', '9'}) {
        std::string bytes = c.bytes;
        bytes[at] = other;
        const Records records = parse(c.format, bytes);
        CHECK(records.rows.size() <= c.bytes.size());
        if (records.fault) CHECK(records.fault->line >= 1);
      }
    }
  }
}

}  // namespace mixtape::data
