// Random texts for `mixtape bench step`, cut into batches that are laid anew each time, as a trainer does.
#pragma once

#include <vector>

#include "data/batch.h"
#include "tools/bench.h"

namespace mixtape::tools {

class BenchBatches {
 public:
  /// As many batches as the run has steps, or as `options.lengths` fills; then they are used again.
  BenchBatches(const StepBench& options, data::Padding padding, int64_t vocab_size, DType label_dtype);

  data::Batch batch(int64_t step) const;
  int64_t tokens(int64_t step) const { return rows(step).tokens; }
  double squares(int64_t step) const { return rows(step).squares; }  ///< of the texts' lengths: what attention costs

 private:
  struct Rows {
    std::vector<int64_t> numbers;
    int64_t tokens = 0;
    double squares = 0;
  };
  const Rows& rows(int64_t step) const { return batches_[static_cast<size_t>(step) % batches_.size()]; }

  data::EncodedTexts texts_;
  data::CollateOptions collate_;
  std::vector<Rows> batches_;
};

}  // namespace mixtape::tools
