// What the module says of itself and of the machine (core/device_report.h). Never throws: no device is an answer.
#include <cuda_runtime.h>

#include <cstdio>

#include "core/device_report.h"

#if !defined(MIXTAPE_DEVICE_ARCHITECTURES)  // the runner compiles for no GPU
#define MIXTAPE_DEVICE_ARCHITECTURES ""
#endif

namespace mixtape::kernels::device {
namespace {

DeviceFacts facts_now() {
  DeviceFacts facts{};
  facts.architectures = MIXTAPE_DEVICE_ARCHITECTURES;
  cudaDriverGetVersion(&facts.driver);
  cudaRuntimeGetVersion(&facts.runtime);
  int count = 0;
  const cudaError_t status = cudaGetDeviceCount(&count);
  facts.status = static_cast<int>(status);
  facts.error = cudaGetErrorString(status);
  if (status != cudaSuccess) {
    cudaGetLastError();  // said: the next call must not say it again
    return facts;
  }
  for (int i = 0; i < count && facts.count < DeviceFacts::most_devices; ++i) {
    cudaDeviceProp of{};
    if (cudaGetDeviceProperties(&of, i) != cudaSuccess) continue;
    DeviceFacts::Gpu& gpu = facts.devices[facts.count++];
    std::snprintf(gpu.name, sizeof gpu.name, "%s", of.name);
    gpu.major = of.major;
    gpu.minor = of.minor;
    gpu.memory_bytes = static_cast<int64_t>(of.totalGlobalMem);
  }
  return facts;
}

}  // namespace
}  // namespace mixtape::kernels::device

extern "C" __attribute__((visibility("default"))) mixtape::DeviceFacts mixtape_device_facts() {
  return mixtape::kernels::device::facts_now();
}
