// Loader: the batches of a whole training run, in order, the next one made ready while the last one is used; where it
// stands is (epoch, batch) and nothing else.
#pragma once

#include <cstdint>
#include <iterator>
#include <memory>
#include <vector>

#include "data/batch.h"

namespace mixtape::data {

struct LoaderOptions {
  PlanOptions plan = {};
  CollateOptions collate = {};
  int64_t epochs = 1;  ///< of the range-for; plan(epoch) knows no end
};

/// `for (const Batch& batch : loader)` gives every batch of every epoch. A trainer that accumulates or resumes asks for
/// the plan of an epoch instead and for the batches it wants. Any thread may ask. A forked child has no thread that
/// prepares batches, and must leave the loaders of its parent alone.
class Loader {
 public:
  class Iterator;

  /// Starts the one thread that prepares batches; where the system refuses it, they are made when they are asked for.
  /// Throws E-BATCH-SIZE (config) for a batch size below 1.
  Loader(EncodedTexts texts, LoaderOptions options);
  Loader(const Loader&) = delete;
  Loader& operator=(const Loader&) = delete;
  ~Loader();

  const EncodedTexts& texts() const { return texts_; }
  const LoaderOptions& options() const { return options_; }
  int64_t batches_per_epoch() const { return batches_per_epoch_; }
  BatchPlan plan(uint32_t epoch) const { return plan_epoch(lengths_, options_.plan, epoch); }

  /// What collate() makes of plan[at]; plan[at + 1] is prepared from then on. Throws what collate() throws for
  /// plan[at], and nothing about the batch after it.
  Batch batch(const BatchPlan& plan, size_t at) const;
  /// A batch stands prepared: if it is the one that is asked for next, nothing is left to do.
  bool next_is_ready() const;

  Iterator begin() const;
  std::default_sentinel_t end() const { return std::default_sentinel; }

 private:
  class Prefetcher;
  void prefetch(const std::vector<int64_t>& rows) const;

  EncodedTexts texts_;
  LoaderOptions options_;
  std::vector<int64_t> lengths_;
  int64_t batches_per_epoch_ = 0;
  std::unique_ptr<Prefetcher> prefetcher_;  // null: no thread was to be had. Last: it reads the texts
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
