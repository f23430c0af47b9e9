#include <cstdlib>

#include "core/caching_allocator.h"

namespace mixtape {
namespace {

class CpuAllocator final : public CachingAllocator {
 protected:
  void* take(size_t bytes) override { return std::aligned_alloc(64, bytes); }
  void give_back(void* block) noexcept override { std::free(block); }
};

}  // namespace

Allocator& cpu_allocator() {
  // Never destroyed: tensors in static storage may outlive every other static object.
  static CpuAllocator& allocator = *new CpuAllocator;
  return allocator;
}

}  // namespace mixtape
