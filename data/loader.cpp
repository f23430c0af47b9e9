#include "data/loader.h"

#include <condition_variable>
#include <csignal>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>

namespace mixtape::data {
namespace {

/// A thread inherits the mask of the one that starts it: those started while this lives hear no signal.
class SignalsBlocked {
 public:
  SignalsBlocked() {
    sigset_t all;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_SETMASK, &all, &before_);
  }
  SignalsBlocked(const SignalsBlocked&) = delete;
  SignalsBlocked& operator=(const SignalsBlocked&) = delete;
  ~SignalsBlocked() { ::pthread_sigmask(SIG_SETMASK, &before_, nullptr); }

 private:
  sigset_t before_;
};

}  // namespace

/// One batch and the thread that fills it. The memory is allocated, and all that can fail done, by those who ask: so
/// what a step allocates does not depend on when the thread gets its turn, and nothing has to be carried back from it.
class Loader::Prefetcher {
 public:
  /// Throws std::system_error where the system refuses a thread.
  Prefetcher(const EncodedTexts& texts, int32_t pad_id) : texts_(texts), pad_id_(pad_id) {
    const SignalsBlocked blocked;  // handlers run in the threads of the program
    thread_ = std::thread([this] { work(); });
  }
  Prefetcher(const Prefetcher&) = delete;
  Prefetcher& operator=(const Prefetcher&) = delete;
  ~Prefetcher() {
    {
      const std::lock_guard lock(mutex_);
      ended_ = true;
    }
    changed_.notify_one();
    thread_.join();
  }

  /// An empty_batch() takes the place of the one that is there.
  void start(Batch batch) {
    {
      const std::lock_guard lock(mutex_);
      batch_ = std::move(batch);
      filled_ = false;
    }
    changed_.notify_one();
  }

  /// The batch of these rows, filled; none when another one or none was started.
  std::optional<Batch> take(const std::vector<int64_t>& rows) {
    const std::lock_guard lock(mutex_);
    if (!batch_ || batch_->row_numbers != rows) return std::nullopt;
    if (!filled_) fill_batch(texts_, pad_id_, *batch_);  // sooner done than the thread is woken
    return std::exchange(batch_, std::nullopt);
  }

  bool ready() {
    const std::lock_guard lock(mutex_);
    return batch_ && filled_;
  }

 private:
  void work() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [this] { return ended_ || (batch_ && !filled_); });
      if (ended_) return;
      fill_batch(texts_, pad_id_, *batch_);  // under the lock: nobody has any use for half a batch
      filled_ = true;
    }
  }

  const EncodedTexts& texts_;
  const int32_t pad_id_;
  std::mutex mutex_;  // over all below
  std::condition_variable changed_;
  std::optional<Batch> batch_;
  bool filled_ = false, ended_ = false;
  std::thread thread_;
};

Loader::Loader(EncodedTexts texts, LoaderOptions options)
    : texts_(std::move(texts)), options_(options), lengths_(texts_.lengths()) {
  batches_per_epoch_ = static_cast<int64_t>(plan(0).size());
  try {
    prefetcher_ = std::make_unique<Prefetcher>(texts_, options_.collate.pad_id);
  } catch (const std::system_error&) {
    // No more threads here. They would only have saved time.
  }
}

Loader::~Loader() = default;

Batch Loader::batch(const BatchPlan& plan, size_t at) const {
  if (!prefetcher_) return collate(texts_, plan[at], options_.collate);
  std::optional<Batch> prepared = prefetcher_->take(plan[at]);
  Batch batch = prepared ? *std::move(prepared) : collate(texts_, plan[at], options_.collate);
  if (at + 1 < plan.size()) prefetch(plan[at + 1]);
  return batch;
}

void Loader::prefetch(const std::vector<int64_t>& rows) const {
  try {
    prefetcher_->start(empty_batch(texts_, rows, options_.collate));
  } catch (const std::exception&) {
    // Whoever asks for that batch is told.
  }
}

bool Loader::next_is_ready() const { return prefetcher_ && prefetcher_->ready(); }

Loader::Iterator Loader::begin() const { return Iterator(*this); }

Loader::Iterator::Iterator(const Loader& loader) : loader_(&loader) {
  if (loader.options_.epochs > 0) plan_ = loader.plan(0);
  settle();
}

Loader::Iterator& Loader::Iterator::operator++() {
  ++at_;
  if (at_ == plan_.size() && epoch_ + 1 < loader_->options_.epochs) {
    plan_ = loader_->plan(++epoch_);
    at_ = 0;
  }
  settle();
  return *this;
}

void Loader::Iterator::settle() {
  if (at_ < plan_.size()) batch_ = loader_->batch(plan_, at_);
}

}  // namespace mixtape::data
