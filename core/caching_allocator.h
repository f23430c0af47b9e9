// Size classes with free lists over any source of memory: what the CPU's allocator and a device's have in common.
#pragma once

#include <mutex>
#include <unordered_map>
#include <vector>

#include "core/allocator.h"

namespace mixtape {

/// Keeps freed blocks by size class (four per power of two); never clears memory. Who derives from it brings the
/// source, and calls release_cached() before that goes.
class CachingAllocator : public Allocator {
 public:
  void* allocate(size_t bytes) override;
  void free(void* block, size_t bytes) override;
  MemoryStats stats() const override;
  void reset_peak() override;
  void release_cached() override;

 protected:
  virtual void* take(size_t bytes) = 0;              ///< from the system; null when it has no more
  virtual void give_back(void* block) noexcept = 0;  ///< to the system
  virtual size_t size_class(size_t bytes) const;     ///< what is taken for `bytes`

 private:
  void release_all();  // the lock is held

  mutable std::mutex mutex_;
  std::unordered_map<size_t, std::vector<void*>> free_;
  MemoryStats stats_;
};

}  // namespace mixtape
