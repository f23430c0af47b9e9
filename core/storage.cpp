#include "core/storage.h"

#include "core/allocator.h"
#include "core/error.h"

namespace mixtape {
namespace {
Allocator& allocator_of(Device device) {
  if (device.is_cpu()) return cpu_allocator();
  fail(ErrorKind::internal, "E-DEVICE", "this build has no CUDA backend: tensors live on the CPU");
}
}  // namespace

Storage::Block::Block(size_t size, Device where) : bytes(size), device(where), allocator(&allocator_of(where)) {
  data = allocator->allocate(size);
}
Storage::Block::~Block() { allocator->free(data, bytes); }
Storage::Storage(size_t bytes, Device device) : block_(std::make_shared<Block>(bytes, device)) {}

}  // namespace mixtape
