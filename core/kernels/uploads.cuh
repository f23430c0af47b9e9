// What the host hands over in every step, its batches: copied on a stream of their own while the device computes.
//
// Three things must wait for each other, none of them the host. A copy waits until nothing reads the bytes that it
// overwrites: those that were freed last are taken last, so while the host is few steps ahead there is nothing to wait
// for. Work enqueued after it waits for the copy. And the pinned bytes are written again when the device has read them
// (core/kernels/staging.cuh).
#pragma once

#include <algorithm>
#include <deque>
#include <mutex>
#include <unordered_map>

#include "core/allocator.h"
#include "core/kernels/staging.cuh"

namespace mixtape::kernels::device {

/// Hands out device memory that copies are the only ones to write, and keeps what was freed.
class Uploads final : public Allocator {
 public:
  /// `memory`: of the device, asked for what it keeps where there is no more. Beyond `most_bytes` a copy waits rather
  /// than that more is taken, where blocks fit.
  explicit Uploads(Allocator& memory, size_t most_bytes = size_t{64} << 20)
      : memory_(memory), most_bytes_(static_cast<int64_t>(most_bytes)) {}
  /// All that was handed out has been freed.
  ~Uploads() override {
    release_cached();
    if (!stream_) return;
    cudaStreamDestroy(stream_);
    cudaEventDestroy(arrived_);
  }
  Uploads(const Uploads&) = delete;
  Uploads& operator=(const Uploads&) = delete;

  void* allocate(size_t bytes) override {
    size_t size = smallest;
    while (size < bytes) size *= 2;
    void* block = take_freed(size);
    return block ? block : take_new(size);
  }

  void free(void* block, size_t) override {
    const std::lock_guard lock(mutex_);
    const Block& freed = blocks_.at(block);
#if defined(MIXTAPE_SIMT)  // who reads it now finds NaN
    cudaMemsetAsync(block, simt::poison, freed.bytes, nullptr);
#endif
    cudaEventRecord(freed.unused, nullptr);  // behind all that was told to read it
    stats_.live_bytes -= static_cast<int64_t>(freed.bytes);
    freed_.push_back(block);
  }

  /// Fills the first `bytes` of a block with the host's, which are free again when this returns. Work that is enqueued
  /// from now on sees them.
  void upload(void* block, const void* from, size_t bytes) {
    if (bytes == 0) return;
    const std::lock_guard lock(mutex_);
    make_stream();
    check_cuda(cudaStreamWaitEvent(stream_, blocks_.at(block).unused, 0), "copy to the device");
    staging_.upload(block, from, bytes, stream_);
    check_cuda(cudaEventRecord(arrived_, stream_), "copy to the device");
    check_cuda(cudaStreamWaitEvent(nullptr, arrived_, 0), "copy to the device");
  }

  MemoryStats stats() const override {
    const std::lock_guard lock(mutex_);
    return stats_;
  }
  void reset_peak() override {
    const std::lock_guard lock(mutex_);
    stats_.peak_bytes = stats_.live_bytes;
  }
  void release_cached() override {
    const std::lock_guard lock(mutex_);
    for (void* block : freed_) {
      const Block& gone = blocks_.at(block);
      cudaFree(block);  // waits for who uses it
      cudaEventDestroy(gone.unused);
      stats_.reserved_bytes -= static_cast<int64_t>(gone.bytes);
      blocks_.erase(block);
    }
    freed_.clear();
  }

 private:
  static constexpr size_t smallest = 4096;
  struct Block {
    size_t bytes = 0;
    cudaEvent_t unused = nullptr;  // the device is through with what was told to read it
  };

  // The block that was freed first of those that fit, if it is unused by now, or there may be no more; else null.
  void* take_freed(size_t size) {
    const std::lock_guard lock(mutex_);
    const auto fits = [&](void* block) { return blocks_.at(block).bytes == size; };
    const auto first = std::find_if(freed_.begin(), freed_.end(), fits);
    if (first == freed_.end()) return nullptr;
    const bool is_full = stats_.reserved_bytes + static_cast<int64_t>(size) > most_bytes_;
    if (!is_full && cudaEventQuery(blocks_.at(*first).unused) != cudaSuccess) return nullptr;
    void* block = *first;
    freed_.erase(first);
    give(size);
    return block;
  }

  // Asks the other allocator without the lock: it asks this one likewise.
  void* take_new(size_t size) {
    Block fresh{.bytes = size};
    void* block = nullptr;
    if (cudaMalloc(&block, size) != cudaSuccess) {
      cudaGetLastError();  // said below, if it is still so
      memory_.release_cached();
      check_cuda(cudaMalloc(&block, size), "memory for a batch");
    }
    check_cuda(cudaEventCreateWithFlags(&fresh.unused, cudaEventDisableTiming), "event");
    const std::lock_guard lock(mutex_);
    blocks_.emplace(block, fresh);
    stats_.reserved_bytes += static_cast<int64_t>(size);
    ++stats_.system_allocations;
    give(size);
    return block;
  }

  void give(size_t size) {
    stats_.live_bytes += static_cast<int64_t>(size);
    stats_.peak_bytes = std::max(stats_.peak_bytes, stats_.live_bytes);
  }

  void make_stream() {
    if (stream_) return;
    // The standard stream waits for all streams but those that say that it need not.
    check_cuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "stream");
    check_cuda(cudaEventCreateWithFlags(&arrived_, cudaEventDisableTiming), "event");
  }

  Allocator& memory_;
  const int64_t most_bytes_;
  mutable std::mutex mutex_;
  std::unordered_map<void*, Block> blocks_;
  std::deque<void*> freed_;  // the one that was freed first in front
  cudaStream_t stream_ = nullptr;
  cudaEvent_t arrived_ = nullptr;  // of the last copy
  Staging staging_;
  MemoryStats stats_;
};

}  // namespace mixtape::kernels::device
