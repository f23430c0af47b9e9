// The tweet_eval format: {train,val,test}_{text,labels}.txt and mapping.txt in one folder, a text and its label on
// equal lines.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "data/dataset.h"

namespace mixtape::data {

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
