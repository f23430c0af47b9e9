#include "data/dataset.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <optional>
#include <unordered_map>

#include "core/error.h"
#include "data/file.h"
#include "data/records.h"
#include "data/tweet_eval.h"

namespace mixtape::data {
namespace {
constexpr uint64_t max_file_bytes = uint64_t{4} << 30;
constexpr std::array<const char*, 3> splits = {"train", "val", "test"};

[[noreturn]] void fail_data(const std::string& code, const std::string& text) { fail(ErrorKind::data, code, text); }

const char* suffix(DataFormat format) {
  return format == DataFormat::csv ? ".csv" : format == DataFormat::tsv ? ".tsv" : ".jsonl";
}

bool is_integer(std::string_view label) {
  return !label.empty() && label.find_first_not_of("0123456789") == std::string_view::npos &&
         (label.size() == 1 || label[0] != '0');
}

/// Anything that a program could have written for a number: "-1", "1.0", "01", "1e3".
bool looks_like_a_number(std::string_view label) {
  return label.find_first_of("0123456789") != std::string_view::npos &&
         label.find_first_not_of("0123456789+-.eE") == std::string_view::npos;
}

/// Why a label is none that classes are made of; "" for a good one.
std::string label_fault(std::string_view label) {
  constexpr std::string_view blanks = " \t\r\n\v\f";
  if (label.empty()) return "blank label";
  const std::string shown = "label " + data::quoted(label);
  if (label.ends_with('\r')) return shown + "; the first line does not end in CR LF: convert the file to LF";
  if (blanks.find(label.front()) != std::string_view::npos || blanks.find(label.back()) != std::string_view::npos)
    return shown + "; it begins or ends in a blank: take that away";
  if (!is_integer(label) && looks_like_a_number(label))
    return shown + "; expected an integer from 0 on or a name. if this is a class, mapping.txt must name it";
  return "";
}

Records read_records(DataFormat format, const std::string& path) {
  const std::string bytes = read_file(path, ErrorKind::data, "E-DATA-MISSING", max_file_bytes);
  Records records = format == DataFormat::csv   ? parse_csv(bytes)
                    : format == DataFormat::tsv ? parse_tsv(bytes)
                                                : parse_jsonl(bytes);
  if (records.fault) {
    fail_data(records.fault->code, message(at_line(path, records.fault->line), ": ", records.fault->what));
  }
  if (records.rows.empty()) {
    fail_data("E-DATA-EMPTY", message(at_line(path, 1), ": no rows; at least one text with its label is needed"));
  }
  return records;
}

std::vector<std::string> classes_of_records(const Records& records, const std::string& path) {
  std::vector<std::string_view> labels;
  for (const Record& record : records.rows) labels.push_back(record.label);
  LabelClasses classes = classes_of_labels(labels);
  if (!classes.fault.empty()) {
    fail_data("E-DATA-LABEL", message(at_line(path, records.rows[classes.faulty_row].line), ": ", classes.fault));
  }
  return std::move(classes.names);
}

/// From a label as written to its class.
class LabelIndex {
 public:
  explicit LabelIndex(const std::vector<std::string>& names) : names_(names) {
    for (size_t i = 0; i < names.size(); ++i) {
      index_[names[i]] = static_cast<int32_t>(i);
      numbers_ = numbers_ && !looks_like_a_number(names[i]);
    }
  }

  int32_t find(std::string_view label) const {
    if (const auto found = index_.find(label); found != index_.end()) return found->second;
    if (!numbers_ || !is_integer(label) || label.size() > 9) return -1;
    const int32_t id = std::stoi(std::string(label));
    return id < static_cast<int32_t>(names_.size()) ? id : -1;
  }

  std::string wanted() const {
    constexpr size_t most = 8;
    std::string out;
    for (size_t i = 0; i < std::min(names_.size(), most); ++i) out += (i == 0 ? "" : ", ") + data::quoted(names_[i]);
    if (names_.size() > most) out += message(", … (", names_.size(), " classes)");
    return out + (numbers_ ? message(", or its number, 0 to ", names_.size() - 1) : "");
  }

 private:
  const std::vector<std::string>& names_;
  std::unordered_map<std::string_view, int32_t> index_;
  bool numbers_ = true;  ///< no name looks like a number, so a number can only be the class's
};

void take_rows(Records& records, Dataset& data) {
  const LabelIndex index(data.class_names);
  for (Record& record : records.rows) {
    const int32_t label = index.find(record.label);
    if (label < 0) {
      const std::string fault = label_fault(record.label);
      fail_data("E-DATA-LABEL", message(at_line(data.text_file, record.line), ": ",
                                        fault.starts_with("blank") || record.label.ends_with('\r')
                                            ? fault
                                            : "label " + data::quoted(record.label),
                                        "; expected one of the classes of train: ", index.wanted()));
    }
    data.texts.push_back(std::move(record.text));
    data.labels.push_back(label);
    data.lines.push_back(record.line);
  }
}

std::vector<std::string> find_classes(DataFormat format, const std::string& dir, const std::string& split,
                                      const Records& records) {
  if (has_class_names(format, dir)) return read_class_names(dir);
  const std::string train = dir + "/train" + suffix(format);
  return classes_of_records(split == "train" ? records : read_records(format, train), train);
}

}  // namespace

LabelClasses classes_of_labels(const std::vector<std::string_view>& labels) {
  LabelClasses out;
  std::map<std::string_view, size_t> first;
  for (size_t i = 0; i < labels.size(); ++i) first.emplace(labels[i], i);
  std::optional<size_t> integer, name;
  for (const auto& [label, row] : first) {
    std::string fault = label_fault(label);
    std::optional<size_t>& kind = is_integer(label) ? integer : name;
    kind = std::min(kind.value_or(row), row);
    if (fault.empty() || (!out.fault.empty() && row > out.faulty_row)) continue;
    out.fault = std::move(fault);
    out.faulty_row = row;
  }
  if (!out.fault.empty()) return out;
  if (integer && name) {
    out.faulty_row = std::max(*integer, *name);
    out.fault = message("label ", data::quoted(labels[out.faulty_row]), ", but the labels before are ",
                        *integer < *name ? "integers" : "names", ": write all of them in one way");
    return out;
  }
  for (const auto& [label, row] : first) out.names.emplace_back(label);
  if (integer) {
    std::sort(out.names.begin(), out.names.end(), [](const std::string& a, const std::string& b) {
      return a.size() != b.size() ? a.size() < b.size() : a < b;
    });
  }
  return out;
}

void Dataset::keep_first(int64_t max_rows) {
  if (max_rows <= 0 || max_rows >= rows()) return;
  const auto count = static_cast<size_t>(max_rows);
  texts.resize(count);
  labels.resize(count);
  lines.resize(count);
}

std::vector<int64_t> Dataset::per_class() const {
  std::vector<int64_t> rows_of(class_names.size());
  for (const int32_t label : labels) ++rows_of[static_cast<size_t>(label)];
  return rows_of;
}

std::vector<std::string> Dataset::absent_classes() const {
  std::vector<std::string> out;
  const std::vector<int64_t> rows_of = per_class();
  for (size_t i = 0; i < rows_of.size(); ++i) {
    if (rows_of[i] == 0) out.push_back(message(label_file, ": no row of the class ", data::quoted(class_names[i])));
  }
  return out;
}

bool has_class_names(DataFormat format, const std::string& data_dir) {
  std::error_code ignored;
  return format == DataFormat::tweet_eval || std::filesystem::exists(data_dir + "/mapping.txt", ignored);
}

std::vector<std::string> data_files(DataFormat format, const std::string& data_dir) {
  std::vector<std::string> files;
  if (has_class_names(format, data_dir)) files.emplace_back("mapping.txt");
  for (const std::string split : splits) {
    if (format == DataFormat::tweet_eval) {
      files.push_back(split + "_text.txt");
      files.push_back(split + "_labels.txt");
    } else {
      files.push_back(split + suffix(format));
    }
  }
  return files;
}

Dataset read_dataset(DataFormat format, const std::string& data_dir, const std::string& split,
                     const std::vector<std::string>& class_names, int64_t max_rows) {
  if (format == DataFormat::tweet_eval) return read_tweet_eval(data_dir, split, max_rows);
  Dataset data;
  data.split = split;
  data.text_file = data.label_file = data_dir + "/" + split + suffix(format);
  Records records = read_records(format, data.text_file);
  data.class_names = class_names.empty() ? find_classes(format, data_dir, split, records) : class_names;
  if (data.class_names.size() < 2) {
    fail_data("E-DATA-CLASSES",
              message(at_line(data.text_file, records.rows.front().line), ": only one class, ",
                      data::quoted(data.class_names.front()), "; there must be two classes or more to tell apart"));
  }
  take_rows(records, data);
  data.keep_first(max_rows);
  return data;
}

}  // namespace mixtape::data
