#include <bit>
#include <cstdlib>
#include <mutex>
#include <new>
#include <unordered_map>
#include <vector>

#include "core/allocator.h"
#include "core/error.h"

namespace mixtape {
namespace {

// Four classes per power of two: at most 25 % of a block is unused, and equal shapes always meet again.
size_t size_class(size_t bytes) {
  if (bytes <= 256) return (bytes + 63) / 64 * 64 + (bytes == 0 ? 64 : 0);
  const size_t quarter = std::bit_floor(bytes - 1) / 4;
  return (bytes + quarter - 1) / quarter * quarter;
}

class CachingCpuAllocator final : public Allocator {
 public:
  ~CachingCpuAllocator() override { release_cached(); }

  void* allocate(size_t bytes) override {
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
    void* block = std::aligned_alloc(64, size);
    if (!block) {
      release_cached();
      block = std::aligned_alloc(64, size);
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

  void free(void* block, size_t bytes) override {
    const size_t size = size_class(bytes);
    const std::lock_guard lock(mutex_);
    stats_.live_bytes -= static_cast<int64_t>(size);
    try {
      free_[size].push_back(block);
    } catch (const std::bad_alloc&) {  // destructors come here, and must not throw
      std::free(block);
      stats_.reserved_bytes -= static_cast<int64_t>(size);
    }
  }

  MemoryStats stats() const override {
    const std::lock_guard lock(mutex_);
    return stats_;
  }
  void reset_peak() override {
    const std::lock_guard lock(mutex_);
    stats_.peak_bytes = stats_.live_bytes;
  }

 private:
  void release_cached() {
    for (auto& [size, list] : free_) {
      for (void* block : list) std::free(block);
      stats_.reserved_bytes -= static_cast<int64_t>(size * list.size());
      list.clear();
    }
  }

  mutable std::mutex mutex_;
  std::unordered_map<size_t, std::vector<void*>> free_;
  MemoryStats stats_;
};

}  // namespace

Allocator& cpu_allocator() {
  // Never destroyed: tensors in static storage may outlive every other static object.
  static CachingCpuAllocator& allocator = *new CachingCpuAllocator;
  return allocator;
}

}  // namespace mixtape
