// The reader of tweet_eval folders: what it accepts as it stands, and every fault with its file and line.
#include <doctest/doctest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "data/tokenizer.h"
#include "data/tweet_eval.h"
#include "tests/shared.h"

namespace mixtape::data {
namespace {
using tests::contains;
using tests::error_of;
using tests::TempFolder;

/// A folder with one split, and the dataset that is read from it.
struct TweetFolder {
  TempFolder folder;
  TweetFolder(std::string_view texts, std::string_view labels, std::string_view mapping = "0\tno\n1\tyes\n") {
    folder.write("train_text.txt", texts);
    folder.write("train_labels.txt", labels);
    folder.write("mapping.txt", mapping);
  }
  Dataset read(int64_t max_rows = 0) const { return read_tweet_eval(folder.path(), "train", max_rows); }
};

void check_refused(const TweetFolder& folder, const std::string& code, const std::string& place,
                   const std::string& words) {
  const auto error = error_of([&] { (void)folder.read(); });
  REQUIRE(error);
  const std::string text = error->what();
  CAPTURE(text);
  CHECK(error->exit_code() == 3);
  CHECK(error->code() == code);
  CHECK(text.starts_with(folder.folder.path(place)));
  CHECK(contains(text, words));
}
using Texts = std::vector<std::string>;
using Labels = std::vector<int32_t>;
struct Oddity {
  const char* what;
  std::string texts, labels, mapping;
  Texts read_texts;
  Labels read_labels;
};
using namespace std::string_literals;
const std::string both = "0\tno\n1\tyes\n";
const std::string megabyte(max_text_line, 'a');
const std::vector<Oddity> oddities = {
    {"no last LF anywhere", "a\nb", "0\n1", "0\tno\n1\tyes", {"a", "b"}, {0, 1}},
    {"CRLF everywhere", "a\r\nb\r\n", "0\r\n1\r\n", "0\tno\r\n1\tyes\r\n", {"a", "b"}, {0, 1}},
    {"CRLF, last line bare", "a\r\nb", "0\r\n1", both, {"a", "b"}, {0, 1}},
    {"only one CR goes", "a\r\r\n", "0\n", both, {"a\r"}, {0}},
    {"a lone CR is text", "a\rb\n\r\r\n", "0\n1\n", both, {"a\rb", "\r"}, {0, 1}},
    {"other line ends are text", "a\u2028b\u2029c\u0085d\ve\ff\n", "0\n", both, {"a\u2028b\u2029c\u0085d\ve\ff"}, {0}},
    {"a blank text is a row", "a\n\nb\n", "0\n1\n0\n", both, {"a", "", "b"}, {0, 1, 0}},
    {"NUL and bytes that are not UTF-8", "a\0b\xFF\n"s, "0\n", both, {"a\0b\xFF"s}, {0}},
    {"a byte order mark",
     "\xEF\xBB\xBF"
     "a\n",
     "\xEF\xBB\xBF"
     "1\n",
     "\xEF\xBB\xBF"
     "0\tno\n1\tyes\n",
     {"\xEF\xBB\xBF"
      "a"},
     {1}},
    {"a class without rows", "a\nb\n", "1\n1\n", both, {"a", "b"}, {1, 1}},
    {"one row", "a\n", "1\n", both, {"a"}, {1}},
    {"mapping in another order", "a\n", "1\n", "1\tyes\n0\tno\n", {"a"}, {1}},
    {"a line of 1 MiB", megabyte + "\n", "0\n", both, {megabyte}, {0}},
};

struct Fault {
  std::string texts, labels, code, place, words;
};
const std::vector<Fault> faults = {
    {"a\nb\n", "0\n2\n", "E-DATA-LABEL", "train_labels.txt:2: ", "label \"2\"; expected an integer from 0 to 1"},
    {"a\nb\n", "-1\n0\n", "E-DATA-LABEL", "train_labels.txt:1: ", "\"-1\""},
    {"a\nb\n", "0\n1.0\n", "E-DATA-LABEL", "train_labels.txt:2: ", "\"1.0\""},
    {"a\nb\n", "0\n1\r\n", "E-DATA-LABEL", "train_labels.txt:2: ",
     "label \"1\\r\"; expected an integer from 0 to 1, as mapping.txt names 2 classes; the first line does not end "
     "in CR LF"},
    {"a\nb\n", "0\r\n1\r\r\n", "E-DATA-LABEL", "train_labels.txt:2: ", "\\r"},
    {"a\nb\n", "0\n\n", "E-DATA-LABEL", "train_labels.txt:2: ", "blank label"},
    {"a\nb\n", "0\n1\n\n", "E-DATA-LABEL", "train_labels.txt:3: ", "blank label"},
    {"a\nb\n", "\n0\n", "E-DATA-LABEL", "train_labels.txt:1: ", "blank label"},
    {"a\nb\n", "0\n 1\n", "E-DATA-LABEL", "train_labels.txt:2: ", "\" 1\""},
    {"a\nb\n", "0\n1 \n", "E-DATA-LABEL", "train_labels.txt:2: ", "\"1 \""},
    {"a\nb\n", "0\n+1\n", "E-DATA-LABEL", "train_labels.txt:2: ", "\"+1\""},
    {"a\nb\n", "0\nyes\n", "E-DATA-LABEL", "train_labels.txt:2: ", "\"yes\""},
    {"a\nb\n", "0\n99999999999999999999\n", "E-DATA-LABEL", "train_labels.txt:2: ", "\"99999999999999999999\""},
    {"a\nb\n", "0\n\x1B[31m\xFF\n", "E-DATA-LABEL", "train_labels.txt:2: ", "\"\\x1b[31m\\xff\""},
    {"a\nb\n", "0\n" + std::string(1000, '7') + "\n", "E-DATA-LABEL", "train_labels.txt:2: ", "7…\""},
    {"a\nb\nc\n", "0\n1\n", "E-DATA-COUNT", "train_text.txt:3: ", "has 3 lines and"},
    {"a\n\nc\n", "0\n1\n", "E-DATA-COUNT", "train_text.txt:2: ", "a blank text"},
    {"a\nb\n\n", "0\n1\n", "E-DATA-COUNT", "train_text.txt:3: ", "a blank text"},
    {"a\nb\n", "0\n1\n1\n", "E-DATA-COUNT", "train_labels.txt:3: ", "has 2 lines and"},
    {"a\nb\u2028c\n", "0\n1\n1\n", "E-DATA-COUNT", "train_text.txt:2: ", "has 3, and line i"},
    {"a\rb\nc\n", "0\n1\n1\n", "E-DATA-COUNT", "train_text.txt:1: ", "other programs end a line"},
    {"", "0\n", "E-DATA-COUNT", "train_labels.txt:1: ", "has 0 lines and"},
    {"a\n", "", "E-DATA-COUNT", "train_text.txt:1: ", "has 0, and"},
    {"", "", "E-DATA-EMPTY", "train_text.txt:1: ", "no rows"},
    {"a\n" + std::string(max_text_line + 1, 'b') + "\n", "0\n1\n", "E-DATA-LINE",
     "train_text.txt:2: ", "1048577 bytes"},
};
}  // namespace

TEST_CASE("texts and labels are read as they stand") {
  const TweetFolder folder("one \n  two\tthree\n", "1\n0\n");
  const Dataset data = folder.read();
  CHECK(data.rows() == 2);
  CHECK(data.split == "train");
  CHECK(data.texts == std::vector<std::string>{"one ", "  two\tthree"});
  CHECK(data.labels == std::vector<int32_t>{1, 0});
  CHECK(data.class_names == std::vector<std::string>{"no", "yes"});
  CHECK(data.text_file == folder.folder.path("train_text.txt"));
  CHECK(data.label_file == folder.folder.path("train_labels.txt"));
}

TEST_CASE("accepted oddities") {
  for (const Oddity& c : oddities) {
    CAPTURE(c.what);
    const Dataset data = TweetFolder(c.texts, c.labels, c.mapping).read();
    CHECK(data.texts == c.read_texts);
    CHECK(data.labels == c.read_labels);
    CHECK(data.class_names == std::vector<std::string>{"no", "yes"});
  }
}

TEST_CASE("faults of labels, counts and lines name file and line") {
  for (const Fault& c : faults) {
    CAPTURE(c.labels);
    check_refused(TweetFolder(c.texts, c.labels), c.code, c.place, c.words);
  }
}

TEST_CASE("faults of mapping.txt name its line") {
  struct Case {
    std::string mapping, place, words;
  };
  const std::vector<Case> cases = {
      {"", "mapping.txt:1: ", "no classes"},
      {"0\tno\n1 yes\n", "mapping.txt:2: ", "expected id<TAB>name, got \"1 yes\""},
      {"0\tno\n1\t\n", "mapping.txt:2: ", "expected id<TAB>name"},
      {"0\tno\n\n", "mapping.txt:2: ", "expected id<TAB>name, got \"\""},
      {"0\tno\n2\tyes\n", "mapping.txt:2: ", "the ids of 2 lines are 0 to 1"},
      {"0\tno\n-1\tyes\n", "mapping.txt:2: ", "\"-1\""},
      {"0\tno\nx\tyes\n", "mapping.txt:2: ", "\"x\""},
      {"0\tno\n0\tyes\n", "mapping.txt:2: ", "id 0 a second time"},
      {"0\tno\n1\tno\n", "mapping.txt:2: ", "the name \"no\" a second time"},
      {"0\tno\n1\t\xFF\n", "mapping.txt:2: ", "not UTF-8"},
  };
  for (const Case& c : cases) {
    CAPTURE(c.mapping);
    check_refused(TweetFolder("a\n", "0\n", c.mapping), "E-DATA-MAPPING", c.place, c.words);
  }
}

TEST_CASE("a missing file or folder is named") {
  for (const char* file : {"train_text.txt", "train_labels.txt", "mapping.txt"}) {
    const TweetFolder folder("a\n", "0\n");
    std::filesystem::remove(folder.folder.path(file));
    check_refused(folder, "E-DATA-MISSING", file, "no such file");
    std::filesystem::create_directory(folder.folder.path(file));
    check_refused(folder, "E-DATA-MISSING", file, "is a directory");
  }
  const auto error = error_of([] { (void)read_tweet_eval("/no/such/folder", "val"); });
  REQUIRE(error);
  CHECK(error->kind() == ErrorKind::data);
  CHECK(contains(error->what(), "/no/such/folder/mapping.txt"));
}

TEST_CASE("a limit keeps the first rows, but all lines are checked") {
  const TweetFolder folder("a\nb\nc\n", "0\n1\n1\n");
  CHECK(folder.read(2).texts == std::vector<std::string>{"a", "b"});
  CHECK(folder.read(2).labels == std::vector<int32_t>{0, 1});
  CHECK(folder.read(3).rows() == 3);
  CHECK(folder.read(4).rows() == 3);
  const TweetFolder bad("a\nb\nc\n", "0\n1\n7\n");
  CHECK(error_of([&] { (void)bad.read(1); })->code() == "E-DATA-LABEL");
}

TEST_CASE("the hostile texts are tokenized to something") {
  const Tokenizer tokenizer(Vocab::parse("[PAD]\n[UNK]\n[CLS]\n[SEP]\na\nb\n", "x"));
  using Ids = std::vector<int32_t>;
  using namespace std::string_literals;
  const std::pair<std::string, Ids> cases[] = {
      {"", {2, 3}},
      {"a\0b"s, {2, 1, 3}},        // NUL goes: "ab" is unknown
      {"a\u2028b", {2, 4, 5, 3}},  // U+2028 is a blank
      {"a\u0085b", {2, 1, 3}},     // U+0085 is a control
      {"a\rb", {2, 4, 5, 3}},
      {"\xEF\xBB\xBF"
       "a",
       {2, 4, 3}},
      {"\u200Fa\u200E", {2, 4, 3}},  // marks of direction
      {"\xED\xA0\xBC", {2, 3}},      // a lone surrogate
      {"a" + std::string(200, '\x80'), {2, 4, 3}},
      {"\U0001F468\u200D\U0001F469", {2, 1, 3}},
  };
  for (const auto& [text, ids] : cases) CHECK(tokenizer.encode(text) == ids);
  std::string zalgo = "a";
  for (int i = 0; i < 100000; ++i) zalgo += "\u0301";
  CHECK(tokenizer.encode(zalgo) == Ids{2, 4, 3});
  std::string disorder = "a";  // marks that are kept, each before all that stand already: quadratic if one is careless
  for (int i = 0; i < 50000; ++i) disorder += "\u08D4\u08D4\u1B44\u1B44";
  CHECK(tokenizer.encode(disorder) == Ids{2, 1, 3});
}

TEST_CASE("both tasks read as their README says") {
  if (tests::no_shared()) return;
  struct Split {
    const char *task, *split;
    int64_t rows, positive;
  };
  for (const Split s : {Split{"offensive", "train", 11916, 3941}, Split{"offensive", "val", 1324, 459},
                        Split{"offensive", "test", 860, 240}, Split{"irony", "train", 2862, 1445},
                        Split{"irony", "val", 955, 456}, Split{"irony", "test", 784, 311}}) {
    CAPTURE(s.task);
    CAPTURE(s.split);
    const Dataset data = read_tweet_eval(tests::shared_path(std::string("data/tweet_eval/") + s.task), s.split);
    CHECK(data.rows() == s.rows);
    int64_t positive = 0;
    for (const int32_t label : data.labels) positive += label;
    CHECK(positive == s.positive);
    CHECK(data.class_names.size() == 2);
  }
  CHECK(read_class_names(tests::shared_path("data/tweet_eval/irony")) ==
        std::vector<std::string>{"non_irony", "irony"});
}

}  // namespace mixtape::data
