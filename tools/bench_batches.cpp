#include "tools/bench_batches.h"

#include <algorithm>
#include <random>

namespace mixtape::tools {

BenchBatches::BenchBatches(const StepBench& options, data::Padding padding, int64_t vocab_size, DType label_dtype)
    : collate_{.padding = padding, .max_length = options.seq, .label_dtype = label_dtype} {
  std::mt19937_64 random(1);
  const uint64_t first = vocab_size > 2000 ? 1000 : 0;  // BERT's vocabulary begins with special and unused pieces
  std::vector<int64_t> lengths = options.lengths;
  if (lengths.empty()) lengths.assign(static_cast<size_t>(options.batch), options.seq);
  batches_.resize(static_cast<size_t>(std::min(std::ssize(lengths) / options.batch, options.steps + options.warmup)));
  auto next_length = lengths.begin();
  std::vector<int32_t> labels;
  for (Rows& made : batches_) {
    for (int64_t row = 0; row < options.batch; ++row) {
      std::vector<int32_t> ids(static_cast<size_t>(std::min(options.seq, *next_length++)));
      for (int32_t& id : ids) id = static_cast<int32_t>(first + random() % (static_cast<uint64_t>(vocab_size) - first));
      made.tokens += std::ssize(ids);
      made.squares += static_cast<double>(ids.size() * ids.size());
      made.numbers.push_back(texts_.rows());
      texts_.append(ids);
      labels.push_back(static_cast<int32_t>(random() % 2));
    }
  }
  texts_.set_labels(std::move(labels));
}

data::Batch BenchBatches::batch(int64_t step) const { return data::collate(texts_, rows(step).numbers, collate_); }

}  // namespace mixtape::tools
