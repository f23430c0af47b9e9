#include "data/tweet_eval.h"

#include <algorithm>
#include <charconv>
#include <numeric>
#include <string_view>

#include "core/error.h"
#include "data/file.h"
#include "data/unicode.h"

namespace mixtape::data {
namespace {
constexpr uint64_t max_file_bytes = uint64_t{4} << 30;

[[noreturn]] void fail_data(const char* code, const std::string& text) { fail(ErrorKind::data, code, text); }

std::string read_data_file(const std::string& path) {
  return read_file(path, ErrorKind::data, "E-DATA-MISSING", max_file_bytes);
}

/// A number of digits alone: no sign, no blanks, no point. -1 for anything else.
int64_t parse_digits(std::string_view text) {
  int64_t value = -1;
  const std::from_chars_result read = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool digits = !text.empty() && text.front() != '-';
  return digits && read.ec == std::errc() && read.ptr == text.data() + text.size() ? value : -1;
}

std::vector<std::string> read_texts(const std::string& path) {
  const std::string bytes = read_data_file(path);
  std::vector<std::string> texts;
  for (const std::string_view line : split_lines(bytes)) {
    if (line.size() > max_text_line) {
      fail_data("E-DATA-LINE", message(at_line(path, texts.size() + 1), ": the line has ", line.size(),
                                       " bytes, at most ", max_text_line, " are read; is a line end missing?"));
    }
    texts.emplace_back(line);
  }
  return texts;
}

/// The label of one line. `line` still has its CR, `carriage_returns` says whether the file's lines end in one.
int32_t parse_label(std::string_view line, bool carriage_returns, int64_t classes, const std::string& place) {
  if (carriage_returns && line.ends_with('\r')) line.remove_suffix(1);
  const int64_t label = parse_digits(line);
  if (label >= 0 && label < classes) return static_cast<int32_t>(label);
  const std::string wanted =
      message("expected an integer from 0 to ", classes - 1, ", as mapping.txt names ", classes, " classes");
  if (line.empty()) fail_data("E-DATA-LABEL", message(place, ": blank label; ", wanted));
  const bool stray = line.ends_with('\r');
  fail_data("E-DATA-LABEL", message(place, ": label ", quoted(line), "; ", wanted,
                                    stray ? "; the first line does not end in CR LF: convert the file to LF" : ""));
}

std::vector<int32_t> read_labels(const std::string& path, int64_t classes) {
  const std::string bytes = read_data_file(path);
  std::string_view rest = skip_bom(bytes);
  std::vector<int32_t> labels;
  bool carriage_returns = false;
  while (!rest.empty()) {
    const size_t feed = std::min(rest.find('\n'), rest.size());
    const std::string_view line = rest.substr(0, feed);
    if (labels.empty()) carriage_returns = line.ends_with('\r');
    labels.push_back(parse_label(line, carriage_returns, classes, at_line(path, labels.size() + 1)));
    rest.remove_prefix(std::min(feed + 1, rest.size()));
  }
  return labels;
}

/// Other programs also end a line at these: the usual cause of more labels than texts.
bool has_other_line_end(std::string_view text) {
  for (const std::string_view end : {"\r", "\v", "\f", "\xC2\x85", "\xE2\x80\xA8", "\xE2\x80\xA9"}) {
    if (text.find(end) != std::string_view::npos) return true;
  }
  return false;
}

[[noreturn]] void fail_count(const Dataset& data) {
  const size_t texts = data.texts.size(), labels = data.labels.size();
  const bool more_texts = texts > labels;
  const auto suspicious = std::find_if(data.texts.begin(), data.texts.end(), [more_texts](const std::string& text) {
    return more_texts ? text.find_first_not_of(" \t\r") == std::string::npos : has_other_line_end(text);
  });
  std::string place = at_line(more_texts ? data.text_file : data.label_file, std::min(texts, labels) + 1);
  const char* why = ": the first line without a partner";
  if (suspicious != data.texts.end()) {
    place = at_line(data.text_file, static_cast<size_t>(suspicious - data.texts.begin()) + 1);
    why = more_texts ? ": a blank text, perhaps one line too many"
                     : ": a text with a character at which other programs end a line, perhaps counted as two";
  }
  fail_data("E-DATA-COUNT", message(place, why, "; ", data.text_file, " has ", texts, " lines and ", data.label_file,
                                    " has ", labels, ", and line i of one belongs to line i of the other"));
}
}  // namespace

std::vector<std::string> read_class_names(const std::string& data_dir) {
  const std::string path = data_dir + "/mapping.txt";
  const std::string bytes = read_data_file(path);
  const std::vector<std::string_view> lines = split_lines(skip_bom(bytes));
  std::vector<std::string> names(lines.size());
  for (size_t i = 0; i < lines.size(); ++i) {
    const auto refuse = [&](const std::string& why) {
      fail_data("E-DATA-MAPPING", message(at_line(path, i + 1), ": ", why));
    };
    const size_t tab = lines[i].find('\t');
    const std::string_view name = tab == std::string_view::npos ? std::string_view() : lines[i].substr(tab + 1);
    if (name.empty()) refuse(message("expected id<TAB>name, got ", quoted(lines[i])));
    if (!is_valid_utf8(name)) refuse("the name is not UTF-8");
    const int64_t id = parse_digits(lines[i].substr(0, tab));
    if (id < 0 || id >= static_cast<int64_t>(names.size())) {
      refuse(message("id ", quoted(lines[i].substr(0, tab)), "; the ids of ", names.size(), " lines are 0 to ",
                     names.size() - 1));
    }
    if (!names[static_cast<size_t>(id)].empty()) refuse(message("id ", id, " a second time"));
    if (std::find(names.begin(), names.end(), name) != names.end())
      refuse(message("the name ", quoted(name), " a second time"));
    names[static_cast<size_t>(id)] = name;
  }
  if (names.empty())
    fail_data("E-DATA-MAPPING", message(at_line(path, 1), ": no classes; expected lines of id<TAB>name"));
  return names;
}

Dataset read_tweet_eval(const std::string& data_dir, const std::string& split, int64_t max_rows) {
  Dataset data;
  data.split = split;
  data.text_file = data_dir + "/" + split + "_text.txt";
  data.label_file = data_dir + "/" + split + "_labels.txt";
  data.class_names = read_class_names(data_dir);
  data.texts = read_texts(data.text_file);
  data.labels = read_labels(data.label_file, static_cast<int64_t>(data.class_names.size()));
  if (data.texts.size() != data.labels.size()) fail_count(data);
  if (data.texts.empty()) {
    fail_data("E-DATA-EMPTY",
              message(at_line(data.text_file, 1), ": no rows; ", split, " needs at least one text with its label"));
  }
  data.lines.resize(data.texts.size());
  std::iota(data.lines.begin(), data.lines.end(), size_t{1});
  data.keep_first(max_rows);
  return data;
}

}  // namespace mixtape::data
