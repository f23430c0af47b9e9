// Bytes that a reader asks for piece by piece: a file's, or some in memory (what a test or a fuzz target has).
#pragma once

#include <algorithm>
#include <cstring>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "data/file.h"

namespace mixtape::data {

class ByteSource {
 public:
  explicit ByteSource(InputFile file) : file_(std::move(file)), size_(file_->size()) {}
  /// `bytes` must outlive the source.
  explicit ByteSource(std::span<const std::byte> bytes) : bytes_(bytes), size_(bytes.size()) {}

  uint64_t size() const { return size_; }  ///< at the time of opening

  /// Fills `target` from `offset` on, as far as there are bytes; returns how many. Throws E-IO-READ (io) for a file
  /// that cannot be read.
  size_t read_at(uint64_t offset, std::span<std::byte> target) const {
    if (file_) return file_->read_at(offset, target);
    if (offset >= size_) return 0;
    const size_t count = std::min(target.size(), bytes_.size() - static_cast<size_t>(offset));
    if (count > 0) std::memcpy(target.data(), bytes_.data() + offset, count);
    return count;
  }

  /// At most `most` bytes from `offset` on.
  std::vector<std::byte> read(uint64_t offset, uint64_t most) const {
    std::vector<std::byte> bytes(static_cast<size_t>(std::min(most, size_ - std::min(size_, offset))));
    bytes.resize(read_at(offset, bytes));
    return bytes;
  }

 private:
  std::optional<InputFile> file_;
  std::span<const std::byte> bytes_;
  uint64_t size_;
};

}  // namespace mixtape::data
