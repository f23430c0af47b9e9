// The host's side of the CUDA runtime: streams, copies, and what a launch may ask for.
#include <cstdlib>
#include <deque>
#include <map>
#include <memory>
#include <set>
#include <string>

#include "tests/simt/include/cuda_runtime.h"
#include "tests/simt/memory.h"

struct CUevent_st {
  int recorded = 0, reached = 0;
  CUstream_st* stream = nullptr;  // of the last record
};
struct CUstream_st {
  struct Work {
    std::function<void()> run;  // empty: goes on when the event has been reached that often, by that stream
    CUevent_st* event;
    int number;
    CUstream_st* stream;
    bool is_blocked() const { return event && event->reached < number; }
  };
  std::deque<Work> waiting;
};

namespace mixtape::simt {
namespace {

// Of compute capability 9.0 (CUDA C++ Programming Guide, "Technical specifications per compute capability").
constexpr unsigned most_threads = 1024, most_threads_z = 64, most_blocks_yz = 65535, most_blocks_x = 2147483647u;
constexpr size_t shared_bytes_unasked = 48 * 1024, most_parameter_bytes = 32764;
constexpr int runtime_version = 13000;

// A planted fault for programs that compare: what comes back from the device has a wrong bit.
bool damages_results() {
  static const bool asked = std::getenv("MIXTAPE_SIMT_DAMAGE") != nullptr;
  return asked;
}
bool has_device() {
  static const bool there = !std::getenv("MIXTAPE_SIMT_NO_DEVICE");
  return there;
}

struct Runtime {
  CUstream_st standard;
  std::map<CUstream_st*, std::unique_ptr<CUstream_st>> streams;
  std::map<const void*, size_t> shared_bytes;  // what kernels may use beyond the default
  std::set<const void*> launched;
  std::string refusal;  // in words
  cudaError_t last = cudaSuccess;
  int64_t waits = 0;
};
Runtime& runtime() {
  static thread_local Runtime instance;
  return instance;
}

cudaError_t refuse(cudaError_t status, const std::string& why) {
  runtime().refusal = why;
  return runtime().last = status;
}
cudaError_t over(const char* what, size_t asked, size_t most) {
  return refuse(cudaErrorInvalidConfiguration, std::string("invalid configuration argument: ") + what + ": " +
                                                   std::to_string(asked) + ", expected 1 to " + std::to_string(most));
}

void run_front(CUstream_st& stream) {
  const CUstream_st::Work work = std::move(stream.waiting.front());
  stream.waiting.pop_front();
  // What it waits for runs now, and no more than that.
  while (work.is_blocked()) run_front(*work.stream);
  if (work.run) work.run();
}
void drain(CUstream_st& stream) {
  if (stream.waiting.empty()) return;
  const DeviceAccess access;
  while (!stream.waiting.empty()) run_front(stream);
}
void run_ahead(CUstream_st& stream) {
  const DeviceAccess access;
  while (!stream.waiting.empty() && !stream.waiting.front().is_blocked()) run_front(stream);
}
void drain_all() {
  drain(runtime().standard);
  for (auto& [handle, stream] : runtime().streams) drain(*stream);
}

// Both ends of a copy must be where its kind says.
cudaError_t check_copy(const void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  const bool to_device = kind == cudaMemcpyHostToDevice || kind == cudaMemcpyDeviceToDevice;
  const bool from_device = kind == cudaMemcpyDeviceToHost || kind == cudaMemcpyDeviceToDevice;
  const auto wrong = [&](const void* end, bool device) { return device ? !on_device(end, bytes) : in_arena(end); };
  if (bytes > 0 && wrong(to, to_device)) {
    return refuse(cudaErrorInvalidValue, "invalid argument: the target of a copy is not where its kind says");
  }
  if (bytes > 0 && wrong(from, from_device)) {
    return refuse(cudaErrorInvalidValue, "invalid argument: the source of a copy is not where its kind says");
  }
  return cudaSuccess;
}

}  // namespace

cudaError_t check_launch(const cudaLaunchConfig_t& config, const void* kernel, size_t parameter_bytes) {
  const dim3 g = config.gridDim, b = config.blockDim;
  const size_t threads = size_t{b.x} * b.y * b.z;
  if (threads == 0 || threads > most_threads) return over("threads of a block", threads, most_threads);
  if (b.z > most_threads_z) return over("threads of a block along z", b.z, most_threads_z);
  if (g.x == 0 || g.x > most_blocks_x) return over("blocks along x", g.x, most_blocks_x);
  if (g.y == 0 || g.y > most_blocks_yz) return over("blocks along y", g.y, most_blocks_yz);
  if (g.z == 0 || g.z > most_blocks_yz) return over("blocks along z", g.z, most_blocks_yz);
  if (parameter_bytes > most_parameter_bytes) return over("bytes of arguments", parameter_bytes, most_parameter_bytes);
  const auto asked = runtime().shared_bytes.find(kernel);
  const size_t allowed = asked == runtime().shared_bytes.end() ? shared_bytes_unasked : asked->second;
  if (config.dynamicSmemBytes > allowed) {
    return refuse(cudaErrorInvalidValue, "invalid argument: " + std::to_string(config.dynamicSmemBytes) +
                                             " bytes of dynamic shared memory, the kernel's limit is " +
                                             std::to_string(allowed));
  }
  runtime().launched.insert(kernel);
  return cudaSuccess;
}
size_t kernels_launched() { return runtime().launched.size(); }

void enqueue(cudaStream_t stream, std::function<void()> work) {
  CUstream_st& queue = stream ? *stream : runtime().standard;
  queue.waiting.push_back({std::move(work), nullptr, 0, nullptr});
  if (!options().deferred) return drain(queue);
  if (options().ahead && stream) run_ahead(queue);
}

void synchronize(cudaStream_t stream) {
  ++runtime().waits;
  drain(stream ? *stream : runtime().standard);
}
int64_t waits() { return runtime().waits; }

void allow_shared_bytes(const void* kernel, size_t bytes) { runtime().shared_bytes[kernel] = bytes; }

}  // namespace mixtape::simt

using namespace mixtape::simt;

const char* cudaGetErrorString(cudaError_t status) {
  if (status != cudaSuccess && status == runtime().last) return runtime().refusal.c_str();
  switch (status) {
    case cudaSuccess: return "no error";
    case cudaErrorInvalidValue: return "invalid argument";
    case cudaErrorMemoryAllocation: return "out of memory";
    default: return "invalid configuration argument";
  }
}
cudaError_t cudaGetLastError() { return std::exchange(runtime().last, cudaSuccess); }
cudaError_t cudaGetDeviceCount(int* count) {
  *count = has_device() ? 1 : 0;
  if (has_device()) return cudaSuccess;
  return refuse(cudaErrorInsufficientDriver, "CUDA driver version is insufficient for CUDA runtime version");
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* of, int device) {
  if (device != 0 || !has_device()) return cudaErrorInvalidValue;
  *of = {"device-on-CPU runner", arena_bytes, 9, 0};
  return cudaSuccess;
}
cudaError_t cudaDriverGetVersion(int* version) {
  *version = has_device() ? runtime_version : 0;
  return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = runtime_version;
  return cudaSuccess;
}

cudaError_t cudaMalloc(void** pointer, size_t bytes) {
  *pointer = device_allocate(bytes);
  return *pointer ? cudaSuccess : refuse(cudaErrorMemoryAllocation, "out of memory");
}
cudaError_t cudaFree(void* pointer) {
  cudaDeviceSynchronize();
  if (!pointer || device_free(pointer)) return cudaSuccess;
  return refuse(cudaErrorInvalidValue, "invalid argument: cudaFree of what is not allocated, or free already");
}
cudaError_t cudaMallocAsync(void** pointer, size_t bytes, cudaStream_t) { return cudaMalloc(pointer, bytes); }
cudaError_t cudaFreeAsync(void* pointer, cudaStream_t stream) {
  if (!on_device(pointer, 0)) return refuse(cudaErrorInvalidValue, "invalid argument: cudaFreeAsync of no allocation");
  enqueue(stream, [pointer] { device_free(pointer); });
  return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  const cudaError_t status = check_copy(to, from, bytes, kind);
  if (status != cudaSuccess) return status;
  // Who reads the target before it waited for the stream finds no number there.
  if (kind == cudaMemcpyDeviceToHost && options().deferred) std::memset(to, poison, bytes);
  const bool damage = kind == cudaMemcpyDeviceToHost && bytes > 0 && damages_results();
  enqueue(stream, [to, from, bytes, damage] {
    std::memcpy(to, from, bytes);
    if (damage) static_cast<unsigned char*>(to)[bytes - 1] ^= 0x10;
  });
  return cudaSuccess;
}
cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  const cudaError_t status = cudaMemcpyAsync(to, from, bytes, kind, nullptr);
  return status == cudaSuccess ? cudaStreamSynchronize(nullptr) : status;
}
cudaError_t cudaMemsetAsync(void* to, int value, size_t bytes, cudaStream_t stream) {
  if (bytes > 0 && !on_device(to, bytes))
    return refuse(cudaErrorInvalidValue, "invalid argument: memset beyond memory");
  enqueue(stream, [to, value, bytes] { std::memset(to, value, bytes); });
  return cudaSuccess;
}

cudaError_t cudaStreamCreate(cudaStream_t* stream) {
  auto made = std::make_unique<CUstream_st>();
  *stream = made.get();
  runtime().streams[made.get()] = std::move(made);
  return cudaSuccess;
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  if (flags == cudaStreamNonBlocking) return cudaStreamCreate(stream);
  return refuse(cudaErrorInvalidValue, "invalid argument: the runner has no streams that wait for the standard one");
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned) {
  CUstream_st& queue = stream ? *stream : runtime().standard;
  queue.waiting.push_back({nullptr, event, event->recorded, event->stream});
  if (!options().deferred) drain(queue);
  return cudaSuccess;
}
cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  drain(*stream);
  runtime().streams.erase(stream);
  return cudaSuccess;
}
cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  synchronize(stream);
  return cudaSuccess;
}
cudaError_t cudaDeviceSynchronize() {
  ++runtime().waits;
  drain_all();
  return cudaSuccess;
}

cudaError_t cudaMallocHost(void** pointer, size_t bytes) {
  *pointer = std::malloc(bytes);
  return *pointer ? cudaSuccess : refuse(cudaErrorMemoryAllocation, "out of memory");
}
cudaError_t cudaFreeHost(void* pointer) {
  std::free(pointer);
  return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) {
  *event = new CUevent_st;
  return cudaSuccess;
}
cudaError_t cudaEventDestroy(cudaEvent_t event) {
  drain_all();
  delete event;
  return cudaSuccess;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  const int number = ++event->recorded;
  event->stream = stream ? stream : &runtime().standard;
  enqueue(stream, [event, number] { event->reached = number; });
  return cudaSuccess;
}
cudaError_t cudaEventQuery(cudaEvent_t event) {
  return event->reached == event->recorded ? cudaSuccess : cudaErrorNotReady;
}
