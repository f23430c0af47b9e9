// csv, tsv and jsonl: the first byte chooses, the rest is the file.
#include "data/records.h"

#include <algorithm>

#include "tests/fuzz/target.h"

namespace mixtape::fuzz {

void check(std::string_view bytes) {
  if (bytes.empty()) return;
  const std::string_view file = bytes.substr(1);
  const int kind = static_cast<unsigned char>(bytes[0]) % 3;
  const data::Records records = kind == 0   ? data::parse_csv(file)
                                : kind == 1 ? data::parse_tsv(file)
                                            : data::parse_jsonl(file);
  const auto lines = static_cast<size_t>(std::count(file.begin(), file.end(), '\n')) + 1;
  size_t last = 0;
  for (const data::Record& row : records.rows) {
    require(row.line > last && row.line <= lines, "rows stand on lines of the file, one after the other");
    last = row.line;
  }
  if (records.fault)
    require(records.fault->line >= 1 && records.fault->line <= lines, "a fault has a line of the file");
}

}  // namespace mixtape::fuzz
