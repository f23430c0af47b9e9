#include "core/storage.h"

#include "core/allocator.h"
#include "core/device_module.h"
#include "core/error.h"

namespace mixtape {

Storage::Block::Block(size_t size, Device where, Allocator& from) : bytes(size), device(where), allocator(&from) {
  data = allocator->allocate(size);
}
Storage::Block::Block(std::shared_ptr<Block> from, size_t offset, size_t size)
    : data(static_cast<char*>(from->data) + offset), bytes(size), device(from->device), allocator(from->allocator) {
  whole = std::move(from);
}
Storage::Block::~Block() {
  if (!whole) allocator->free(data, bytes);
}
Storage::Storage(size_t bytes, Device device) : Storage(bytes, device, allocator_of(device)) {}
Storage::Storage(size_t bytes, Device device, Allocator& from) : block_(std::make_shared<Block>(bytes, device, from)) {}

Storage Storage::part(size_t offset, size_t bytes) const {
  if (offset > this->bytes() || bytes > this->bytes() - offset) {
    fail(ErrorKind::internal, "E-STORAGE",
         message("part: ", bytes, " bytes from ", offset, " on do not lie in ", this->bytes()));
  }
  Storage cut;
  cut.block_ = std::make_shared<Block>(block_, offset, bytes);
  return cut;
}

Storage Storage::twin(size_t bytes, const Storage& old, Device device) const {
  if (!block_->whole || block_->bytes == 0) return Storage(bytes, device);
  Block& whole = *block_->whole;
  Storage room;
  room.block_ = whole.twins.lock();
  const size_t needed = whole.bytes * bytes / block_->bytes;
  const bool mine_is_there = old && old.block_->whole == room.block_;
  if (!room || room.bytes() != needed || mine_is_there || !(room.device() == device)) {
    room = Storage(needed, device);
    whole.twins = room.block_;
  }
  const size_t before = static_cast<size_t>(static_cast<char*>(block_->data) - static_cast<char*>(whole.data));
  return room.part(before * bytes / block_->bytes, bytes);
}

}  // namespace mixtape
