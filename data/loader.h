// Loader: the batches of a whole training run, in order; where it stands is (epoch, batch) and nothing else.
#pragma once

#include <cstdint>
#include <iterator>
#include <vector>

#include "data/batch.h"

namespace mixtape::data {

struct LoaderOptions {
  PlanOptions plan = {};
  CollateOptions collate = {};
  int64_t epochs = 1;  ///< of the range-for; plan(epoch) knows no end
};

/// `for (const Batch& batch : loader)` gives every batch of every epoch. A trainer that accumulates or resumes asks for
/// the plan of an epoch instead and collates the batches it wants.
class Loader {
 public:
  class Iterator;

  /// Throws E-BATCH-SIZE (config) for a batch size below 1.
  Loader(EncodedTexts texts, LoaderOptions options);

  const EncodedTexts& texts() const { return texts_; }
  const LoaderOptions& options() const { return options_; }
  int64_t batches_per_epoch() const { return batches_per_epoch_; }
  BatchPlan plan(uint32_t epoch) const { return plan_epoch(lengths_, options_.plan, epoch); }
  Batch batch(const std::vector<int64_t>& rows) const { return collate(texts_, rows, options_.collate); }

  Iterator begin() const;
  std::default_sentinel_t end() const { return std::default_sentinel; }

 private:
  EncodedTexts texts_;
  LoaderOptions options_;
  std::vector<int64_t> lengths_;
  int64_t batches_per_epoch_ = 0;
};

class Loader::Iterator {
 public:
  explicit Iterator(const Loader& loader);
  const Batch& operator*() const { return batch_; }
  Iterator& operator++();
  bool operator==(std::default_sentinel_t) const { return at_ == plan_.size(); }

 private:
  void settle();

  const Loader* loader_;
  BatchPlan plan_;
  uint32_t epoch_ = 0;
  size_t at_ = 0;  // in plan_; its size: past the last epoch
  Batch batch_;
};

}  // namespace mixtape::data
