#include "core/caching_allocator.h"

#include <bit>
#include <new>

#include "core/error.h"

namespace mixtape {

// Four classes per power of two: at most 25 % of a block is unused, and equal shapes always meet again.
size_t CachingAllocator::size_class(size_t bytes) const {
  if (bytes <= 256) return (bytes + 63) / 64 * 64 + (bytes == 0 ? 64 : 0);
  const size_t quarter = std::bit_floor(bytes - 1) / 4;
  return (bytes + quarter - 1) / quarter * quarter;
}

void* CachingAllocator::allocate(size_t bytes) {
  const size_t size = size_class(bytes);
  const std::lock_guard lock(mutex_);
  stats_.live_bytes += static_cast<int64_t>(size);
  if (stats_.live_bytes > stats_.peak_bytes) stats_.peak_bytes = stats_.live_bytes;
  std::vector<void*>& list = free_[size];
  if (!list.empty()) {
    void* block = list.back();
    list.pop_back();
    return block;
  }
  void* block = take(size);
  if (!block) {
    release_all();
    block = take(size);
  }
  if (!block) {
    stats_.live_bytes -= static_cast<int64_t>(size);
    fail(ErrorKind::memory, "E-MEMORY",
         message("cannot allocate ", bytes, " bytes; ", stats_.live_bytes,
                 " bytes are in use: reduce trainer.per_device_train_batch_size or tokenizer.max_length"));
  }
  stats_.reserved_bytes += static_cast<int64_t>(size);
  ++stats_.system_allocations;
  return block;
}

void CachingAllocator::free(void* block, size_t bytes) {
  const size_t size = size_class(bytes);
  const std::lock_guard lock(mutex_);
  stats_.live_bytes -= static_cast<int64_t>(size);
  try {
    free_[size].push_back(block);
  } catch (const std::bad_alloc&) {  // destructors come here, and must not throw
    give_back(block);
    stats_.reserved_bytes -= static_cast<int64_t>(size);
  }
}

MemoryStats CachingAllocator::stats() const {
  const std::lock_guard lock(mutex_);
  return stats_;
}
void CachingAllocator::reset_peak() {
  const std::lock_guard lock(mutex_);
  stats_.peak_bytes = stats_.live_bytes;
}
void CachingAllocator::release_cached() {
  const std::lock_guard lock(mutex_);
  release_all();
}

void CachingAllocator::release_all() {
  for (auto& [size, list] : free_) {
    for (void* block : list) give_back(block);
    stats_.reserved_bytes -= static_cast<int64_t>(size * list.size());
    list.clear();
  }
}

}  // namespace mixtape
