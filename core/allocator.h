// Memory: an allocator hands out 64-byte aligned blocks; the caching one keeps freed blocks by size class.
#pragma once

#include <cstddef>
#include <cstdint>

#include "core/device.h"

namespace mixtape {

/// What an allocator knows about itself; all figures since the start, or since reset_peak() for the peak.
struct MemoryStats {
  int64_t live_bytes = 0;          ///< handed out now
  int64_t peak_bytes = 0;          ///< the most that was ever handed out at one time
  int64_t reserved_bytes = 0;      ///< taken from the system, handed out or cached
  int64_t system_allocations = 0;  ///< calls to the system: does not move from the third step on at a fixed shape
};

class Allocator {
 public:
  virtual ~Allocator() = default;
  /// At least `bytes` (may be 0), aligned to 64. Throws Error(memory, E-MEMORY).
  virtual void* allocate(size_t bytes) = 0;
  virtual void free(void* block, size_t bytes) = 0;
  virtual MemoryStats stats() const = 0;
  virtual void reset_peak() = 0;
  /// Gives back to the system what is cached.
  virtual void release_cached() = 0;
};

/// The process-wide CPU allocator: size classes (four per power of two) with free lists; never clears memory.
Allocator& cpu_allocator();
/// The one that the storages of `device` come from. Throws E-DEVICE when it is not there.
Allocator& allocator_of(Device device);

}  // namespace mixtape
