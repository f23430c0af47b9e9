// The tweet_eval format: {train,val,test}_{text,labels}.txt and mapping.txt in one folder, a text and its label on
// equal lines.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace mixtape::data {

/// Texts with one label each, as they stand in the files.
struct Dataset {
  std::string split;                     ///< "train", "val" or "test"
  std::string text_file, label_file;     ///< where row i is line i+1
  std::vector<std::string> texts;        ///< the bytes of the line, blanks and ill-formed UTF-8 included
  std::vector<int32_t> labels;           ///< 0 to class_names.size()-1
  std::vector<std::string> class_names;  ///< by label
  int64_t rows() const { return static_cast<int64_t>(texts.size()); }
};

/// The longest line that a text file may have, in bytes.
inline constexpr size_t max_text_line = size_t{1} << 20;

/// Reads one split. `max_rows` > 0 keeps the first rows only (all lines are checked all the same).
///
/// Lines end at LF and nowhere else; one CR before it belongs to the end (in a label file on every line or on none).
/// The last line may lack its LF. A blank text is a row; a byte order mark before the first label or mapping line is
/// skipped, in a text it stays (the tokenizer removes it). A class that no row has is no error.
///
/// Every fault is an Error of kind data whose message begins with file:line: E-DATA-MISSING (a file or the folder),
/// E-DATA-MAPPING (mapping.txt is not "id<TAB>name" with ids 0, 1, …), E-DATA-LABEL (not one of the mapping's ids),
/// E-DATA-COUNT (other numbers of texts and labels), E-DATA-LINE (a text over max_text_line), E-DATA-EMPTY (no rows).
Dataset read_tweet_eval(const std::string& data_dir, const std::string& split, int64_t max_rows = 0);

/// Reads mapping.txt of that folder: the names by label.
std::vector<std::string> read_class_names(const std::string& data_dir);

}  // namespace mixtape::data
