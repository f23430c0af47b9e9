// The one way to start a kernel, with every status checked. nvcc only.
#pragma once

#include <cuda_runtime.h>

#include "core/error.h"

namespace mixtape::kernels::device {

inline void check_cuda(cudaError_t status, const char* what) {
  if (status == cudaSuccess) return;
  fail(ErrorKind::internal, "E-CUDA", message(what, ": ", cudaGetErrorString(status)));
}

/// Starts `kernel` on the current stream of the device.
template <class... Parameter, class... Argument>
void launch(void (*kernel)(Parameter...), unsigned grid, unsigned block, size_t shared_bytes, Argument&&... argument) {
  cudaLaunchConfig_t config{};
  config.gridDim = dim3(grid);
  config.blockDim = dim3(block);
  config.dynamicSmemBytes = shared_bytes;
  check_cuda(cudaLaunchKernelEx(&config, kernel, static_cast<Parameter>(argument)...), "kernel launch");
}

}  // namespace mixtape::kernels::device
