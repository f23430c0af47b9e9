// Survey: what is in a data set, in figures, before anybody trains on it. No figure holds a text.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "data/dataset.h"
#include "data/tokenizer.h"

namespace mixtape::data {

/// Of the lengths of a split's texts in tokens, [CLS] and [SEP] included, before anything is cut. A percentile p is the
/// smallest length that at least p % of the texts do not exceed.
struct LengthSurvey {
  int64_t min = 0, median = 0, p95 = 0, p99 = 0, max = 0;
};

struct SplitSurvey {
  std::string split, text_file;
  int64_t rows = 0;
  std::vector<int64_t> per_class;
  LengthSurvey lengths;
  int64_t cut = 0;                  ///< texts longer than `max_length`
  int64_t pieces = 0, unknown = 0;  ///< without special tokens; how many are [UNK]
  int64_t empty = 0;                ///< texts without a single piece
  int64_t duplicates = 0;           ///< rows whose text stood before, byte for byte
  int64_t contradictions = 0;       ///< of these, rows whose label is not that of the first
  int64_t ill_formed = 0;           ///< rows that are not UTF-8
  std::vector<size_t> ill_lines;    ///< where they begin: the first ten
  int64_t controls = 0;             ///< rows with a control character other than tab, LF and CR
  int64_t not_nfc = 0;              ///< rows that are not in normal form C
};

/// `tokenizer` must not cut (max_length 0); `max_length` is what training will cut to. `progress(rows done)` is called
/// now and then; it may throw to stop.
SplitSurvey survey(const Dataset& rows, const Tokenizer& tokenizer, int64_t max_length,
                   const std::function<void(int64_t)>& progress = {});

/// Texts that stand in two splits, byte for byte: what was trained on is tested with.
struct Leak {
  std::string splits[2], files[2];
  int64_t rows = 0;  ///< of the second split
  struct Pair {
    size_t first, second;  ///< lines
  };
  std::vector<Pair> examples;  ///< the first five
};
Leak find_leak(const Dataset& first, const Dataset& second);

}  // namespace mixtape::data
