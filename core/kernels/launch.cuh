// The one way to start a kernel, with every status checked, and what kernels and their launches share. Compiled by nvcc
// for a GPU and by g++ over the words of tests/simt, which has a <cuda_runtime.h> of its own.
#pragma once

#include <cuda_runtime.h>

#include <utility>

#include "core/error.h"

namespace mixtape::kernels::device {

inline void check_cuda(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  fail(ErrorKind::internal, "E-CUDA", message(what, ": ", cudaGetErrorString(status)));
}

inline constexpr size_t shared_bytes_unasked = 48 * 1024;  // what a block may use without saying so before
inline constexpr unsigned warp_threads = 32;
inline constexpr unsigned whole_warp = 0xffffffffu;

/// Starts `kernel` on a stream; kernels in headers are templates, if need be of nothing, because nvcc takes none
/// inline. `shared_bytes` are those that dynamic_shared() gives each block.
template <class... Parameter, class... Argument>
void launch(void (*kernel)(Parameter...), dim3 grid, dim3 block, size_t shared_bytes, cudaStream_t stream,
            Argument&&... argument) {
  if (shared_bytes > shared_bytes_unasked) {
    check_cuda(
        cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, static_cast<int>(shared_bytes)),
        "shared memory of a kernel");
  }
  cudaLaunchConfig_t config{};
  config.gridDim = grid;
  config.blockDim = block;
  config.dynamicSmemBytes = shared_bytes;
  config.stream = stream;
  check_cuda(cudaLaunchKernelEx(&config, kernel, static_cast<Parameter>(std::forward<Argument>(argument))...),
             "kernel launch");
}

/// The dynamic shared memory of the block, aligned to 16: the only way to it, because two kernels that declare it with
/// different types do not compile together.
template <class T>
__device__ T* dynamic_shared() {
#if defined(__CUDACC__)
  extern __shared__ __align__(16) unsigned char dynamic_shared_bytes[];
  return reinterpret_cast<T*>(dynamic_shared_bytes);
#else
  return static_cast<T*>(simt::dynamic_shared());
#endif
}

/// Device memory for the time between two launches of one stream.
template <class T>
class Scratch {
 public:
  Scratch(int64_t count, cudaStream_t stream) : stream_(stream) {
    void* room = nullptr;
    check_cuda(cudaMallocAsync(&room, static_cast<size_t>(count) * sizeof(T), stream), "scratch memory of a kernel");
    data_ = static_cast<T*>(room);
  }
  ~Scratch() { cudaFreeAsync(data_, stream_); }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  T* data() const { return data_; }

 private:
  T* data_ = nullptr;
  cudaStream_t stream_;
};

/// Blocks for `items` of which each block takes `per_block` at a time and then goes on by the size of the grid.
inline dim3 grid_for(int64_t items, int64_t per_block) {
  constexpr int64_t most = 1 << 16;
  const int64_t blocks = (items + per_block - 1) / per_block;
  return dim3(static_cast<unsigned>(blocks < most ? blocks : most));
}

}  // namespace mixtape::kernels::device
