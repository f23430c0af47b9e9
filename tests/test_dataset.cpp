// Datasets of any format: classes and labels, and the faults that data can have (docs: faults.md F19), each with file
// and line.
#include <doctest/doctest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "data/dataset.h"
#include "tests/shared.h"

namespace mixtape::data {
namespace {
using tests::contains;
using tests::error_of;
using tests::TempFolder;
using Names = std::vector<std::string>;

struct Row {
  std::string text, label;
};
struct Own {
  DataFormat format;
  std::string suffix;
};
const std::vector<Own> own_formats = {
    {DataFormat::csv, ".csv"}, {DataFormat::tsv, ".tsv"}, {DataFormat::jsonl, ".jsonl"}};

/// Rows as a file of the format; the texts are plain.
std::string file_of(DataFormat format, const std::vector<Row>& rows) {
  std::string out = format == DataFormat::csv ? "text,label\n" : format == DataFormat::tsv ? "text\tlabel\n" : "";
  for (const Row& row : rows) {
    const std::string label = row.label == "1\r" && format == DataFormat::jsonl ? "1\\r" : row.label;
    if (format == DataFormat::jsonl) {
      out += "{\"text\":\"" + row.text + "\",\"label\":\"" + label + "\"}\n";
    } else {
      out += row.text + (format == DataFormat::csv ? "," : "\t") + label + "\n";
    }
  }
  return out;
}

/// Line of the i-th row (from 0).
std::string line_of(DataFormat format, int row) { return std::to_string(row + (format == DataFormat::jsonl ? 1 : 2)); }

struct Folder {
  TempFolder folder;
  Own own;
  Folder(Own which, const std::vector<Row>& train, const std::vector<Row>& val, const std::string& mapping = "")
      : own(std::move(which)) {
    folder.write("train" + own.suffix, file_of(own.format, train));
    folder.write("val" + own.suffix, file_of(own.format, val));
    if (!mapping.empty()) folder.write("mapping.txt", mapping);
  }
  Dataset read(const std::string& split, int64_t max_rows = 0) const {
    return read_dataset(own.format, folder.path(), split, {}, max_rows);
  }
  void check_refused(const std::string& split, const std::string& code, int row, const std::string& words) const {
    const auto error = error_of([&] { (void)read(split); });
    REQUIRE(error);
    const std::string text = error->what(), place = folder.path(split + own.suffix) + ":" + line_of(own.format, row);
    CAPTURE(text);
    CHECK(error->exit_code() == 3);
    CHECK(error->code() == code);
    CHECK(text.starts_with(place + ": "));
    CHECK(contains(text, words));
  }
};

const std::string yes_no = "0\tno\n1\tyes\n";
const std::vector<Row> two = {{"a", "0"}, {"b", "1"}};

struct Label {
  std::string written, words;
};
/// What no format may take for a class of {0: no, 1: yes} or of {0, 1}.
const std::vector<Label> foreign = {{"2", "\"2\""},
                                    {"-1", "\"-1\""},
                                    {"1.0", "\"1.0\""},
                                    {"1\r", "\"1\\r\"; the first line does not end in CR LF"},
                                    {"", "blank label"},
                                    {" 1", "\" 1\""},
                                    {"+1", "\"+1\""},
                                    {"01", "\"01\""},
                                    {"99999999999999999999", "\"99999999999999999999\""}};
}  // namespace

TEST_CASE("dataset: classes come from mapping.txt, by name or by number") {
  for (const Own& own : own_formats) {
    const Folder folder(own, {{"a", "yes"}, {"b", "0"}, {"c", "1"}, {"d", "no"}}, two, yes_no);
    const Dataset data = folder.read("train");
    CHECK(data.class_names == Names{"no", "yes"});
    CHECK(data.labels == std::vector<int32_t>{1, 0, 1, 0});
    CHECK(data.texts == Names{"a", "b", "c", "d"});
    CHECK(data.lines.back() == (own.format == DataFormat::jsonl ? 4 : 5));
    CHECK(folder.read("val").labels == std::vector<int32_t>{0, 1});
    CHECK(folder.read("train", 2).rows() == 2);
    // Stars: a number is a name then, never an id.
    const Folder stars(own, {{"a", "1"}, {"b", "3"}}, {{"a", "0"}}, "0\t1\n1\t2\n2\t3\n");
    CHECK(stars.read("train").labels == std::vector<int32_t>{0, 2});
    stars.check_refused("val", "E-DATA-LABEL", 0, "\"0\"");
  }
}

TEST_CASE("dataset: without mapping.txt the classes are the sorted labels of train") {  // B29
  for (const Own& own : own_formats) {
    const Folder names(own, {{"a", "pos"}, {"b", "Neg"}, {"c", "\u00e4h"}, {"d", "pos"}}, {{"a", "pos"}});
    CHECK(names.read("train").class_names == Names{"Neg", "pos", "\u00e4h"});
    CHECK(names.read("val").class_names == Names{"Neg", "pos", "\u00e4h"});
    CHECK(names.read("val").labels == std::vector<int32_t>{1});
    std::vector<Row> many;
    for (const int label : {100, 11, 2, 0, 7}) many.push_back({"a", std::to_string(label)});
    const Dataset numbers = Folder(own, many, many).read("train");
    CHECK(numbers.class_names == Names{"0", "2", "7", "11", "100"});
    CHECK(numbers.labels == std::vector<int32_t>{4, 3, 1, 0, 2});
    CHECK(Folder(own, many, many).read("train", 1).class_names.size() == 5);
  }
}

TEST_CASE("dataset: F19, labels that are no class, in every format") {
  for (const Own& own : own_formats) {
    CAPTURE(own.suffix);
    for (const Label& label : foreign) {
      CAPTURE(label.written);
      const std::vector<Row> rows = {{"a", "0"}, {"b", "1"}, {"c", label.written}, {"d", "1"}};
      Folder(own, rows, two, yes_no).check_refused("train", "E-DATA-LABEL", 2, label.words);
      Folder(own, two, rows).check_refused("val", "E-DATA-LABEL", 2, label.words);
      if (label.written == "2" || label.written == "99999999999999999999") continue;  // a third class
      Folder(own, rows, two).check_refused("train", "E-DATA-LABEL", 2, label.words);
    }
    const Folder unknown(own, {{"a", "pos"}, {"b", "neg"}}, {{"a", "neg"}, {"b", "neutral"}});
    unknown.check_refused("val", "E-DATA-LABEL", 1, "label \"neutral\"; expected one of the classes of train: \"neg\"");
    Folder(own, {{"a", "0"}, {"b", "1"}, {"c", "yes"}}, two)
        .check_refused("train", "E-DATA-LABEL", 2, "the labels before are integers");
    Folder(own, {{"a", "no"}, {"b", "yes"}, {"c", "1"}}, two)
        .check_refused("train", "E-DATA-LABEL", 2, "the labels before are names");
    Folder(own, {{"a", "yes"}, {"b", "yes "}}, two).check_refused("train", "E-DATA-LABEL", 1, "a blank");
  }
}

TEST_CASE("dataset: F19, rows and files that are missing, in every format") {
  for (const Own& own : own_formats) {
    CAPTURE(own.suffix);
    Folder(own, {}, two).check_refused("train", "E-DATA-EMPTY", own.format == DataFormat::jsonl ? 0 : -1, "no rows");
    Folder(own, two, {}).check_refused("val", "E-DATA-EMPTY", own.format == DataFormat::jsonl ? 0 : -1, "no rows");
    Folder(own, {{"a", "x"}}, two).check_refused("train", "E-DATA-CLASSES", 0, "two classes or more");
    CHECK(Folder(own, {{"a", "1"}}, two, yes_no).read("train").labels == std::vector<int32_t>{1});  // class 0 is absent
    const Folder folder(own, two, two);
    std::filesystem::remove(folder.folder.path("val" + own.suffix));
    for (const std::string split : {"val", "test"}) {
      const auto error = error_of([&] { (void)folder.read(split); });
      REQUIRE(error);
      CHECK(error->exit_code() == 3);
      CHECK(error->code() == "E-DATA-MISSING");
      CHECK(contains(error->what(), folder.folder.path(split + own.suffix)));
    }
    const auto error = error_of([&] { (void)read_dataset(own.format, "/no/such", "val", {"no", "yes"}); });
    CHECK((error && error->code() == "E-DATA-MISSING"));
  }
}

TEST_CASE("dataset: classes that are given win over the files") {
  for (const Own& own : own_formats) {
    const Folder folder(own, two, {{"a", "yes"}}, "");
    CHECK(read_dataset(own.format, folder.folder.path(), "val", {"no", "yes"}).labels == std::vector<int32_t>{1});
  }
}

TEST_CASE("dataset: the files of a task") {
  const Folder own(own_formats[0], two, two);
  CHECK(data_files(DataFormat::csv, own.folder.path()) == Names{"train.csv", "val.csv", "test.csv"});
  CHECK_FALSE(has_class_names(DataFormat::csv, own.folder.path()));
  CHECK(data_files(DataFormat::tweet_eval, "x").size() == 7);
  own.folder.write("mapping.txt", yes_no);
  CHECK(data_files(DataFormat::csv, own.folder.path()).front() == "mapping.txt");
}

}  // namespace mixtape::data
