#include "data/records.h"

#include <algorithm>

#include "core/error.h"
#include "data/dataset.h"
#include "data/file.h"

namespace mixtape::data {
namespace {

RecordFault too_long(size_t line, std::string_view remedy) {
  return {line, "E-DATA-LINE", message("a record of more than ", max_text_line, " bytes; ", remedy)};
}

/// One record, cut into fields.
struct Row {
  std::vector<std::string> fields;
  size_t line = 0;
  bool carriage_return = false;  ///< one was dropped from the last field
};

/// Takes records off the front of a text.
class Scanner {
 public:
  Scanner(std::string_view text, char separator, bool quoting)
      : text_(text), separator_(separator), quoting_(quoting) {}

  bool done() const { return at_ == text_.size(); }

  std::optional<RecordFault> next(Row& row) {
    row.fields.clear();
    row.line = line_;
    row.carriage_return = false;
    const size_t begin = at_;
    for (bool more = true; more;) {
      std::string& field = row.fields.emplace_back();
      const bool quoted = quoting_ && at_ < text_.size() && text_[at_] == '"';
      if (auto fault = quoted ? quoted_field(field) : plain_field(field)) return fault;
      if (at_ - begin > max_text_line) {
        return too_long(row.line, quoting_ ? "is a quote or a line end missing?" : "is a line end missing?");
      }
      more = at_ < text_.size() && text_[at_] == separator_;
      if (more) ++at_;
      if (!more && !quoted && at_ < text_.size() && field.ends_with('\r')) {
        field.pop_back();
        row.carriage_return = true;
      }
    }
    if (at_ < text_.size()) ++at_, ++line_;
    return std::nullopt;
  }

 private:
  std::optional<RecordFault> plain_field(std::string& field) {
    size_t end = at_;
    while (end < text_.size() && text_[end] != separator_ && text_[end] != '\n') ++end;
    field = text_.substr(at_, end - at_);
    at_ = end;
    if (!quoting_ || field.find('"') == std::string::npos) return std::nullopt;
    return RecordFault{line_, "E-DATA-QUOTE",
                       "a quote inside a field that does not begin with one; put the whole field in quotes and double "
                       "those within"};
  }

  std::optional<RecordFault> quoted_field(std::string& field) {
    const size_t opened = line_, begin = at_++;
    while (at_ < text_.size()) {
      const char c = text_[at_++];
      if (c == '\n') ++line_;
      if (c == '"' && (at_ == text_.size() || text_[at_] != '"')) return after_quote(opened);
      if (c == '"') ++at_;
      field.push_back(c);
      if (at_ - begin > max_text_line + 1) return too_long(opened, "is a quote not closed?");
    }
    return RecordFault{opened, "E-DATA-QUOTE", "the quote that opens a field here is never closed"};
  }

  std::optional<RecordFault> after_quote(size_t opened) {
    const bool carriage_return = at_ + 1 < text_.size() && text_[at_] == '\r' && text_[at_ + 1] == '\n';
    if (carriage_return) ++at_;
    if (at_ == text_.size() || text_[at_] == separator_ || text_[at_] == '\n') return std::nullopt;
    const std::string from = opened == line_ ? "" : message(" that was opened in line ", opened);
    return RecordFault{line_, "E-DATA-QUOTE",
                       message("after the closing quote of a field", from,
                               " comes neither a comma nor the end of the line; quotes inside a field are doubled")};
  }

  std::string_view text_;
  char separator_;
  bool quoting_;
  size_t at_ = 0, line_ = 1;
};

/// The two columns that count.
struct Columns {
  size_t text = 0, label = 0;
};

/// What the header has instead; nothing when it looks like a text, which no message shows.
std::string found_columns(const std::vector<std::string>& fields) {
  constexpr size_t longest_name = 24, most = 8;
  std::string out;
  for (const std::string& field : fields) {
    if (field.size() > longest_name || fields.size() > most) return "";
    out += message(out.empty() ? "; it has " : ", ", data::quoted(field));
  }
  return out;
}

std::optional<RecordFault> find_columns(const std::vector<std::string>& fields, Columns& columns) {
  for (const auto& [name, place] : {std::pair("text", &columns.text), std::pair("label", &columns.label)}) {
    const auto found = std::find(fields.begin(), fields.end(), name);
    if (found == fields.end()) {
      return RecordFault{
          1, "E-DATA-HEADER",
          message("the first line must name the columns, and one must be \"", name, "\"", found_columns(fields))};
    }
    if (std::find(found + 1, fields.end(), name) != fields.end()) {
      return RecordFault{1, "E-DATA-HEADER", message("two columns have the name \"", name, "\"")};
    }
    *place = static_cast<size_t>(found - fields.begin());
  }
  return std::nullopt;
}

RecordFault wrong_count(const Row& row, size_t columns, bool quoting) {
  const bool blank = row.fields.size() == 1 && row.fields[0].empty();
  if (blank) return {row.line, "E-DATA-COLUMNS", message("a blank line, but the header has ", columns, " columns")};
  return {row.line, "E-DATA-COLUMNS",
          message(row.fields.size(), row.fields.size() == 1 ? " field" : " fields", ", but the header has ", columns,
                  " columns; ",
                  quoting ? "a text with a comma, a quote or a line break stands in quotes"
                          : "no text may hold a tab or a line break: put a blank in its place, or use csv")};
}

bool is_utf16(std::string_view bytes) { return bytes.starts_with("\xFF\xFE") || bytes.starts_with("\xFE\xFF"); }

Records parse_delimited(std::string_view bytes, char separator, bool quoting) {
  Records out;
  if (is_utf16(bytes)) {
    out.fault = RecordFault{1, "E-DATA-HEADER", "the file is UTF-16; save it as UTF-8"};
    return out;
  }
  Scanner scanner(skip_bom(bytes), separator, quoting);
  Row row;
  Columns columns;
  if ((out.fault = scanner.next(row))) return out;
  if ((out.fault = find_columns(row.fields, columns))) return out;
  const size_t count = row.fields.size();
  const bool carriage_returns = row.carriage_return;
  while (!scanner.done()) {
    if ((out.fault = scanner.next(row))) return out;
    if (row.fields.size() != count) {
      out.fault = wrong_count(row, count, quoting);
      return out;
    }
    std::string& label = row.fields[columns.label];
    if (row.carriage_return && !carriage_returns && columns.label + 1 == count) label.push_back('\r');
    out.rows.push_back({std::move(row.fields[columns.text]), std::move(label), row.line});
  }
  return out;
}

}  // namespace

Records parse_csv(std::string_view bytes) { return parse_delimited(bytes, ',', true); }

Records parse_tsv(std::string_view bytes) { return parse_delimited(bytes, '\t', false); }

}  // namespace mixtape::data
