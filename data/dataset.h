// Dataset: one split of a task, whatever format its files have.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace mixtape::data {

/// The longest text that is read, in bytes: of a tweet_eval or jsonl line, or of a record of a csv or tsv file.
inline constexpr size_t max_text_line = size_t{1} << 20;

/// Texts with one label each, as they stand in the files.
struct Dataset {
  std::string split;                     ///< "train", "val" or "test"
  std::string text_file, label_file;     ///< the same file but for tweet_eval
  std::vector<std::string> texts;        ///< as they stand there, blanks and ill-formed UTF-8 included
  std::vector<int32_t> labels;           ///< 0 to class_names.size()-1
  std::vector<std::string> class_names;  ///< by label
  std::vector<size_t> lines;             ///< where each row begins, from 1
  int64_t rows() const { return static_cast<int64_t>(texts.size()); }
  /// Drops what is beyond `max_rows`; 0 keeps all.
  void keep_first(int64_t max_rows);
  /// Rows of each class.
  std::vector<int64_t> per_class() const;
  /// `file: no row of the class "rude"`, a line for each class without a row: a model never learns to choose it.
  std::vector<std::string> absent_classes() const;
};

enum class DataFormat {
  tweet_eval,  ///< SPLIT_text.txt and SPLIT_labels.txt, with mapping.txt (data/tweet_eval.h)
  tsv,         ///< SPLIT.tsv
  csv,         ///< SPLIT.csv
  jsonl        ///< SPLIT.jsonl (data/records.h)
};

/// One split of a folder. `max_rows` > 0 keeps the first rows only; all are checked all the same.
///
/// csv, tsv, jsonl: the classes are `class_names` when given; else those of mapping.txt when the folder has one, else
/// the distinct labels of train, sorted by bytes, or by value when all are integers. A label is the name of a class, or
/// its number when no class has a number for a name.
///
/// Every fault is an Error of kind data whose message begins with file:line: those of read_tweet_eval and of the
/// parsers in data/records.h; E-DATA-LABEL (a label that is no class, or that can only be meant otherwise: "1.0",
/// "-1", "yes " where the classes come from the labels), E-DATA-CLASSES (fewer than two classes), E-DATA-EMPTY (no
/// rows), E-DATA-MISSING.
Dataset read_dataset(DataFormat format, const std::string& data_dir, const std::string& split,
                     const std::vector<std::string>& class_names = {}, int64_t max_rows = 0);

/// True when the classes stand in the folder's mapping.txt: then they must be those that a model was trained for.
bool has_class_names(DataFormat format, const std::string& data_dir);

/// The names of the files that a task is read from, those of the splits first to last; mapping.txt when it is there.
std::vector<std::string> data_files(DataFormat format, const std::string& data_dir);

/// The classes that the labels of a training file stand for, or why they stand for none.
struct LabelClasses {
  std::vector<std::string> names;  ///< sorted: by value when all are integers, else by bytes
  size_t faulty_row = 0;           ///< with a `fault`
  std::string fault = {};
};
/// A pure function of the labels as they are written.
LabelClasses classes_of_labels(const std::vector<std::string_view>& labels);

}  // namespace mixtape::data
