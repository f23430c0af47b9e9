// Copies to a device that the host does not wait for: the bytes go into pinned memory first, which the device reads
// when its stream comes to it.
#pragma once

#include <cstring>
#include <mutex>
#include <vector>

#include "core/kernels/launch.cuh"

namespace mixtape::kernels::device {

class Staging {
 public:
  static constexpr size_t most_bytes = size_t{4} << 20;  ///< more is a copy of weights, and may wait

  Staging() = default;
  ~Staging() {
    for (const Block& block : blocks_) {
      cudaEventDestroy(block.read);
      cudaFreeHost(block.pinned);
    }
  }
  Staging(const Staging&) = delete;
  Staging& operator=(const Staging&) = delete;

  /// Copies `bytes` of the host's memory, which are free again when this returns.
  void upload(void* to, const void* from, size_t bytes, cudaStream_t stream) {
    const std::lock_guard lock(mutex_);
    Block& block = free_block(bytes);
    std::memcpy(block.pinned, from, bytes);
    check_cuda(cudaMemcpyAsync(to, block.pinned, bytes, cudaMemcpyHostToDevice, stream), "copy to the device");
    check_cuda(cudaEventRecord(block.read, stream), "copy to the device");
  }

 private:
  struct Block {
    void* pinned = nullptr;
    size_t bytes = 0;
    cudaEvent_t read = nullptr;  // the device has read it
  };

  Block& free_block(size_t bytes) {
    for (Block& block : blocks_) {
      if (block.bytes < bytes) continue;
      const cudaError_t status = cudaEventQuery(block.read);
      if (status == cudaSuccess) return block;
      if (status != cudaErrorNotReady) check_cuda(status, "copy to the device");
    }
    Block fresh{.bytes = 4096};
    while (fresh.bytes < bytes) fresh.bytes *= 2;
    check_cuda(cudaMallocHost(&fresh.pinned, fresh.bytes), "pinned memory");
    check_cuda(cudaEventCreateWithFlags(&fresh.read, cudaEventDisableTiming), "event");
    blocks_.push_back(fresh);
    return blocks_.back();
  }

  std::mutex mutex_;
  std::vector<Block> blocks_;
};

}  // namespace mixtape::kernels::device
