// The words of CUDA for g++: found as <cuda_runtime.h> by what is compiled for the device-on-CPU runner. Only what the
// kernels of this tree use, with the names and the meaning of the CUDA C++ Programming Guide.
#pragma once

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <functional>
#include <tuple>
#include <type_traits>
#include <utility>

#include "tests/simt/runner.h"

#define MIXTAPE_SIMT 1

// ---- declaration words ----

#define __global__
#define __device__
#define __host__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __grid_constant__
#define __align__(bytes) alignas(bytes)
// One OS thread runs all fibers of a block: what is its own is what the block shares.
#define __shared__ static thread_local

// Vectors are a way to move other types: the compiler must not take them for objects of their own.
struct [[gnu::may_alias]] alignas(16) float4 {
  float x, y, z, w;
};
struct [[gnu::may_alias]] alignas(8) uint2 {
  unsigned x, y;
};
struct uint3 {
  unsigned x, y, z;
};
struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
};

// Variables, not macros, which would turn config.gridDim into something else; the runner sets them at each switch.
extern constinit thread_local uint3 threadIdx, blockIdx;
extern constinit thread_local dim3 blockDim, gridDim;
inline constexpr int warpSize = 32;

// ---- what a thread calls ----

inline void __syncthreads(const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  mixtape::simt::barrier(file, line);
}
inline void __syncwarp(unsigned mask = 0xffffffffu, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  mixtape::simt::warp_barrier(mask, file, line);
}
inline void __threadfence() {}

namespace mixtape::simt::words {
template <class T>
T shuffle(unsigned mask, T value, int source, const char* file, int line) {
  static_assert(std::is_arithmetic_v<T>, "shuffles move numbers");
  uint64_t bits = 0;
  std::memcpy(&bits, &value, sizeof value);
  bits = warp_exchange(mask, bits, source, file, line);
  std::memcpy(&value, &bits, sizeof value);
  return value;
}
/// Lane `other` of the `width` lanes that this one is among; itself where there is none.
inline int within(int other, int width) {
  const int first = lane() / width * width;
  return other >= 0 && other < width ? first + other : lane();
}
}  // namespace mixtape::simt::words

template <class T>
T __shfl_sync(unsigned mask, T value, int source, int width = 32, const char* file = __builtin_FILE(),
              int line = __builtin_LINE()) {
  namespace simt = mixtape::simt;
  return simt::words::shuffle(mask, value, simt::lane() / width * width + source % width, file, line);
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int bits, int width = 32, const char* file = __builtin_FILE(),
                  int line = __builtin_LINE()) {
  namespace simt = mixtape::simt;
  return simt::words::shuffle(mask, value, simt::words::within((simt::lane() % width) ^ bits, width), file, line);
}
template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32, const char* file = __builtin_FILE(),
                 int line = __builtin_LINE()) {
  namespace simt = mixtape::simt;
  const int other = simt::lane() % width - static_cast<int>(delta);
  return simt::words::shuffle(mask, value, simt::words::within(other, width), file, line);
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32, const char* file = __builtin_FILE(),
                   int line = __builtin_LINE()) {
  namespace simt = mixtape::simt;
  const int other = simt::lane() % width + static_cast<int>(delta);
  return simt::words::shuffle(mask, value, simt::words::within(other, width), file, line);
}
inline unsigned __ballot_sync(unsigned mask, int predicate, const char* file = __builtin_FILE(),
                              int line = __builtin_LINE()) {
  return mixtape::simt::warp_ballot(mask, predicate != 0, file, line);
}
inline int __any_sync(unsigned mask, int predicate, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  return mixtape::simt::warp_ballot(mask, predicate != 0, file, line) != 0;
}
inline int __all_sync(unsigned mask, int predicate, const char* file = __builtin_FILE(), int line = __builtin_LINE()) {
  return mixtape::simt::warp_ballot(mask, predicate != 0, file, line) == mask;
}
inline int __popc(unsigned bits) { return std::popcount(bits); }

// Relaxed, as on the device: they are no race, and order nothing else. No atomicAdd of floats: a sum whose order is a
// matter of luck has other bits in every run.
template <class T>
requires std::is_integral_v<T> T atomicAdd(T* at, std::type_identity_t<T> value) {
  return __atomic_fetch_add(at, value, __ATOMIC_RELAXED);
}
template <class T>
requires std::is_integral_v<T> T atomicOr(T* at, std::type_identity_t<T> value) {
  return __atomic_fetch_or(at, value, __ATOMIC_RELAXED);
}

// ---- what the host calls ----

enum cudaError_t {
  cudaSuccess = 0,
  cudaErrorInvalidValue = 1,
  cudaErrorMemoryAllocation = 2,
  cudaErrorInvalidConfiguration = 9,
  cudaErrorInsufficientDriver = 35,
  cudaErrorNotReady = 600,
};
enum cudaMemcpyKind {
  cudaMemcpyHostToHost = 0,
  cudaMemcpyHostToDevice = 1,
  cudaMemcpyDeviceToHost = 2,
  cudaMemcpyDeviceToDevice = 3,
  cudaMemcpyDefault = 4,
};
enum { cudaEventDisableTiming = 2 };
enum { cudaStreamNonBlocking = 1 };
enum cudaFuncAttribute { cudaFuncAttributeMaxDynamicSharedMemorySize = 8 };
using cudaStream_t = struct CUstream_st*;
using cudaEvent_t = struct CUevent_st*;
struct cudaLaunchAttribute;
struct cudaLaunchConfig_t {
  dim3 gridDim, blockDim;
  size_t dynamicSmemBytes = 0;
  cudaStream_t stream = nullptr;
  cudaLaunchAttribute* attrs = nullptr;
  unsigned numAttrs = 0;
};

/// In words; of the last refused launch, which limit it was over.
const char* cudaGetErrorString(cudaError_t status);
cudaError_t cudaGetLastError();
/// One device; none, with the error of a machine without a driver, where the environment has MIXTAPE_SIMT_NO_DEVICE.
cudaError_t cudaGetDeviceCount(int* count);
struct cudaDeviceProp {
  char name[256];
  size_t totalGlobalMem;
  int major, minor;
};
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* of, int device);
cudaError_t cudaDriverGetVersion(int* version);
cudaError_t cudaRuntimeGetVersion(int* version);
cudaError_t cudaMalloc(void** pointer, size_t bytes);
cudaError_t cudaFree(void* pointer);
cudaError_t cudaMallocAsync(void** pointer, size_t bytes, cudaStream_t stream);
cudaError_t cudaFreeAsync(void* pointer, cudaStream_t stream);
cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind);
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream);
cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t stream);
cudaError_t cudaStreamCreate(cudaStream_t* stream);
/// No stream of the runner waits for another one unasked, so that flags must say NonBlocking.
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags);
cudaError_t cudaStreamDestroy(cudaStream_t stream);
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags);
cudaError_t cudaStreamSynchronize(cudaStream_t stream);
cudaError_t cudaDeviceSynchronize();
cudaError_t cudaMallocHost(void** pointer, size_t bytes);
cudaError_t cudaFreeHost(void* pointer);
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags);
cudaError_t cudaEventDestroy(cudaEvent_t event);
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream);
cudaError_t cudaEventQuery(cudaEvent_t event);
template <class T>
cudaError_t cudaMalloc(T** pointer, size_t bytes) {
  return cudaMalloc(reinterpret_cast<void**>(pointer), bytes);
}

namespace mixtape::simt {
/// Checks a launch as the driver would; `parameter_bytes` are those of its arguments.
cudaError_t check_launch(const cudaLaunchConfig_t& config, const void* kernel, size_t parameter_bytes);
/// Runs `work` now, or when somebody waits for the stream.
void enqueue(cudaStream_t stream, std::function<void()> work);
/// Runs all work of a stream that waits.
void synchronize(cudaStream_t stream);
void allow_shared_bytes(const void* kernel, size_t bytes);
/// How many different kernels have been launched.
size_t kernels_launched();
/// How often the host waited for the device: synchronised, copied from it or from memory that is not pinned, freed
/// some.
int64_t waits();
}  // namespace mixtape::simt

template <class Kernel>
cudaError_t cudaFuncSetAttribute(Kernel* kernel, cudaFuncAttribute, int value) {
  if (value < 0 || static_cast<size_t>(value) > mixtape::simt::most_shared_bytes) return cudaErrorInvalidValue;
  mixtape::simt::allow_shared_bytes(reinterpret_cast<const void*>(kernel), static_cast<size_t>(value));
  return cudaSuccess;
}

template <class... Parameter, class... Argument>
cudaError_t cudaLaunchKernelEx(const cudaLaunchConfig_t* config, void (*kernel)(Parameter...), Argument&&... argument) {
  namespace simt = mixtape::simt;
  const cudaError_t status =
      simt::check_launch(*config, reinterpret_cast<const void*>(kernel), (size_t{0} + ... + sizeof(Parameter)));
  if (status != cudaSuccess) return status;
  struct Call {
    void (*kernel)(Parameter...);
    std::tuple<Parameter...> arguments;  // copied at the launch: what the host changes later does not matter
  };
  const dim3 blocks = config->gridDim, threads = config->blockDim;
  const simt::Grid grid{{blocks.x, blocks.y, blocks.z}, {threads.x, threads.y, threads.z}, config->dynamicSmemBytes};
  simt::enqueue(config->stream,
                [grid, call = Call{kernel, std::tuple<Parameter...>(std::forward<Argument>(argument)...)}] {
                  const auto body = [](const void* closure) {
                    const Call& own = *static_cast<const Call*>(closure);
                    std::apply(own.kernel, own.arguments);
                  };
                  simt::run_grid(grid, body, &call);
                });
  return cudaSuccess;
}
