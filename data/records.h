// Records: rows of text and label out of csv, tsv and jsonl files, as pure functions of bytes that nobody vouches for.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace mixtape::data {

struct Record {
  std::string text;   ///< as it stands there; ill-formed UTF-8 included
  std::string label;  ///< as it is written; of a JSON integer the digits
  size_t line = 0;    ///< where the record begins, from 1
};

struct RecordFault {
  size_t line = 0;  ///< from 1
  std::string code;
  std::string what;
};

/// The rows of a file, or the first thing that is wrong with it.
struct Records {
  std::vector<Record> rows;
  std::optional<RecordFault> fault;  ///< then `rows` holds what stands before it
};

/// Comma-separated, as RFC 4180 has it: the first record names the columns, of which one is "text" and one is "label";
/// a field with a comma, a quote or a line break stands in quotes, quotes in it are doubled. Other columns are skipped.
/// A leading byte order mark is skipped. Lines end at LF alone; one CR before it goes with it, but stays on a label
/// when the header's line has none (a stray one, which the reader of labels refuses).
///
/// Faults: E-DATA-HEADER (no such columns, UTF-16), E-DATA-COLUMNS (another number of fields than the header, a blank
/// line), E-DATA-QUOTE (a quote that is not closed, or where none may stand), E-DATA-LINE (over max_text_line).
Records parse_csv(std::string_view bytes);

/// The same with tabs and without quoting: a quote is a character like any other, a text holds no tab and no LF.
Records parse_tsv(std::string_view bytes);

/// One JSON object a line (RFC 8259) with a string "text" and a string or integer "label"; other members are skipped.
/// A lone surrogate (\ud83d) reads as U+FFFD; bytes that are not UTF-8 stay. Faults: E-DATA-JSON, E-DATA-LINE.
Records parse_jsonl(std::string_view bytes);

}  // namespace mixtape::data
