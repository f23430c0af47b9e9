// Storage: reference-counted bytes on a device, with a version that moves at every write after creation.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>

#include "core/device.h"

namespace mixtape {

class Allocator;

class Storage {
 public:
  Storage() = default;
  Storage(size_t bytes, Device device);  ///< uninitialised bytes from the device's allocator
  /// The same from an allocator of the device's memory that outlives it.
  Storage(size_t bytes, Device device, Allocator& from);

  explicit operator bool() const { return block_ != nullptr; }
  void* data() const { return block_ ? block_->data : nullptr; }
  size_t bytes() const { return block_ ? block_->bytes : 0; }
  Device device() const { return block_ ? block_->device : Device{}; }
  /// Counts in-place writes: a saved tensor, a shadow and a packed form each remember the one they were made from.
  uint32_t version() const { return block_ ? block_->version : 0; }
  void bump_version() const { ++block_->version; }
  int64_t use_count() const { return block_.use_count(); }
  bool same_as(const Storage& other) const { return block_ == other.block_; }

  /// `bytes` of these bytes from `offset` on as a storage of their own, with its own version: writing to one part moves
  /// no other's. Keeps the whole alive. Throws E-STORAGE when they do not lie inside.
  Storage part(size_t offset, size_t bytes) const;
  /// Uninitialised room for `bytes` that are made from all of these. What is made at one rate from parts of a whole
  /// lies as the parts do. `old`, the twin before, is not written on.
  Storage twin(size_t bytes, const Storage& old, Device device) const;
  Storage twin(size_t bytes, const Storage& old) const { return twin(bytes, old, device()); }

 private:
  struct Block {
    Block(size_t bytes, Device device, Allocator& from);
    Block(std::shared_ptr<Block> whole, size_t offset, size_t bytes);
    ~Block();
    Block(const Block&) = delete;
    Block& operator=(const Block&) = delete;
    void* data;
    size_t bytes;
    Device device;
    uint32_t version = 0;
    Allocator* allocator;
    std::shared_ptr<Block> whole;  // of a part: what it is cut from
    std::weak_ptr<Block> twins;    // of a whole: where the twins of its parts lie
  };
  std::shared_ptr<Block> block_;
};

}  // namespace mixtape
