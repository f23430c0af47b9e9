#include "tests/simt/faults.h"

#include <unistd.h>

#include <array>
#include <cmath>
#include <cstdio>
#include <memory>

#include "core/kernels/launch.cuh"
#include "tests/simt/fiber.h"
#include "tests/simt/memory.h"

namespace mixtape::simt_tests {
namespace {

using kernels::device::check_cuda;
using kernels::device::dynamic_shared;
using kernels::device::launch;
using kernels::device::whole_warp;

constexpr int threads = 64;

template <class T>
T* on_device(size_t count) {
  T* data = nullptr;
  check_cuda(cudaMalloc(&data, count * sizeof(T)), "cudaMalloc");
  return data;
}
std::vector<float> read(const float* data, size_t count) {
  std::vector<float> values(count);
  check_cuda(cudaMemcpy(values.data(), data, count * sizeof(float), cudaMemcpyDeviceToHost), "cudaMemcpy");
  return values;
}

// Says in which order the kernel gives something else than `expected`.
template <class Run, class Expected>
void compare_orders(const Run& run, const Expected& expected) {
  const std::pair<simt::Order, const char*> orders[] = {
      {simt::Order::forward, "forward"}, {simt::Order::reverse, "reverse"}, {simt::Order::shuffled, "shuffled"}};
  for (const auto& [order, name] : orders) {
    const simt::OptionsGuard guard({.order = order, .seed = 3});
    const std::vector<float> values = run();
    for (size_t i = 0; i < values.size(); ++i) {
      if (values[i] == expected(i)) continue;
      std::printf("wrong result in order %s: element %zu is %g, not %g\n", name, i, static_cast<double>(values[i]),
                  static_cast<double>(expected(i)));
      break;
    }
  }
}

// ---- races ----

constexpr int missing_barrier_line = __LINE__ + 4;  // and the line behind it
__global__ void missing_barrier(float* out) {
  __shared__ float row[threads];
  const unsigned t = threadIdx.x;
  row[t] = static_cast<float>(t);
  out[t] = row[(t + 32) % threads];  // written by the other warp, perhaps later
}
void run_missing_barrier() {
  float* out = on_device<float>(threads);
  compare_orders([&] { return launch(missing_barrier, 1, threads, 0, nullptr, out), read(out, threads); },
                 [](size_t i) { return static_cast<float>((i + 32) % threads); });
}

constexpr int write_after_read_line = __LINE__ + 5;  // written there, read two lines below
__global__ void write_after_read(float* out) {
  __shared__ float total;
  float sum = 0;
  for (int round = 0; round < 3; ++round) {
    if (threadIdx.x == 0) total = static_cast<float>(round);
    __syncthreads();
    sum += total;  // no barrier behind it: thread 0 may be in the next round
  }
  out[threadIdx.x] = sum;
}
void run_write_after_read() {
  float* out = on_device<float>(threads);
  launch(write_after_read, 1, threads, 0, nullptr, out);
}

constexpr int warp_synchrony_line = __LINE__ + 4;
__global__ void warp_synchrony(float* out) {
  __shared__ float row[32];
  const unsigned t = threadIdx.x;
  row[t] = static_cast<float>(t);
  out[t] = row[31 - t];  // the same warp, but nothing makes its lanes run in step
}
void run_warp_synchrony() { launch(warp_synchrony, 1, 32, 0, nullptr, on_device<float>(32)); }

constexpr int global_race_line = __LINE__ + 3;
__global__ void global_race(float* values) {
  const float next = values[(threadIdx.x + 1) % threads];
  values[threadIdx.x] = next + 1;
}
void run_global_race() {
  float* values = on_device<float>(threads);
  check_cuda(cudaMemsetAsync(values, 0, threads * sizeof(float), nullptr), "memset");
  launch(global_race, 1, threads, 0, nullptr, values);
}

__global__ void block_order(float* values) {  // block b needs what block b - 1 wrote
  if (threadIdx.x == 0) values[blockIdx.x] = blockIdx.x == 0 ? 0 : values[blockIdx.x - 1] + 1;
}
void run_block_order() {
  float* values = on_device<float>(8);
  const auto run = [&] {
    check_cuda(cudaMemsetAsync(values, 0xff, 8 * sizeof(float), nullptr), "memset");
    launch(block_order, 8, 32, 0, nullptr, values);
    return read(values, 8);
  };
  compare_orders(run, [](size_t i) { return static_cast<float>(i); });
}

// ---- bounds ----

constexpr int out_of_bounds_line = __LINE__ + 1;
__global__ void out_of_bounds(float* values) { values[threadIdx.x] = 1; }
void run_out_of_bounds() { launch(out_of_bounds, 1, threads, 0, nullptr, on_device<float>(threads - 1)); }
void run_far_out_of_bounds() {
  simt::explain_faults();
  launch(out_of_bounds, 1, threads, 0, nullptr, on_device<float>(threads) + 1024);
}
void run_use_after_free() {
  simt::explain_faults();
  float *kept = on_device<float>(threads), *gone = on_device<float>(threads);
  check_cuda(cudaFree(gone), "cudaFree");
  launch(out_of_bounds, 1, threads, 0, nullptr, gone);
  cudaFree(kept);
}

constexpr int shared_bounds_line = __LINE__ + 1;
__global__ void shared_bounds() { dynamic_shared<float>()[threadIdx.x] = 1; }
void run_shared_bounds() { launch(shared_bounds, 1, threads, (threads - 1) * sizeof(float), nullptr); }

constexpr int static_bounds_line = __LINE__ + 3;
__global__ void static_bounds(float* out) {
  __shared__ float row[threads - 1];
  row[threadIdx.x] = 1;
  *out = row[0];
}
void run_static_bounds() { launch(static_bounds, 1, threads, 0, nullptr, on_device<float>(1)); }

constexpr int misaligned_line = __LINE__ + 1;
__global__ void misaligned(float* values) { *reinterpret_cast<float4*>(values + 1) = float4{1, 2, 3, 4}; }
void run_misaligned() { launch(misaligned, 1, 1, 0, nullptr, on_device<float>(8)); }

__global__ void deep_stack(int* out) {
  volatile char room[simt::stack_bytes + 1024];
  room[0] = 1;
  *out = room[0];
}
void run_deep_stack() {
  simt::explain_faults();
  launch(deep_stack, 1, 1, 0, nullptr, on_device<int>(1));
}

// ---- barriers ----

template <class F>
void say_error(const F& f) {
  try {
    f();
  } catch (const std::exception& error) {
    std::printf("%s\n", error.what());
  }
}

__global__ void barrier_in_a_branch() {
  if (threadIdx.x != 2) __syncthreads();
}
void run_barrier_in_a_branch() {
  say_error([] { launch(barrier_in_a_branch, 1, threads, 0, nullptr); });
}
__global__ void two_barriers() {
  if (threadIdx.x == 2) {
    __syncthreads();
  } else {
    __syncthreads();
  }
}
void run_two_barriers() {
  say_error([] { launch(two_barriers, 1, threads, 0, nullptr); });
}
__global__ void shuffle_in_a_branch(int* out) {
  if (threadIdx.x != 5) *out = __shfl_sync(whole_warp, 1, 0);
}
void run_shuffle_in_a_branch() {
  say_error([] { launch(shuffle_in_a_branch, 1, 32, 0, nullptr, on_device<int>(1)); });
}
__global__ void foreign_mask(int* out) {
  const int value = __shfl_sync(0xfffeu, 1, 1);
  if (threadIdx.x == 1) *out = value;
}
void run_foreign_mask() {
  say_error([] { launch(foreign_mask, 1, 16, 0, nullptr, on_device<int>(1)); });
}
__global__ void missing_lanes(int* out) { *out = __any_sync(whole_warp, 1); }
void run_missing_lanes() {
  say_error([] { launch(missing_lanes, 1, 20, 0, nullptr, on_device<int>(1)); });
}

// ---- what the host forgets ----

__global__ void write_one(float* out) { *out = 1; }
void run_missing_synchronisation() {
  const simt::OptionsGuard guard({.deferred = true});
  float* data = on_device<float>(1);
  launch(write_one, 1, 1, 0, nullptr, data);
  float value = 0;
  check_cuda(cudaMemcpyAsync(&value, data, sizeof value, cudaMemcpyDeviceToHost, nullptr), "copy");
  if (!(value == 1.0f)) std::printf("read before the stream was waited for: %g\n", static_cast<double>(value));
  check_cuda(cudaStreamSynchronize(nullptr), "synchronise");
  if (value == 1.0f) std::printf("and then it is 1\n");
}
// Copies on a stream of their own, with one event too few on either side.
__global__ void copy_one(const float* in, float* out) { *out = *in; }
float after_a_copy(const simt::Options& options) {
  const simt::OptionsGuard guard(options);
  float *data = on_device<float>(1), *out = on_device<float>(1), *pinned = nullptr;
  check_cuda(cudaMallocHost(reinterpret_cast<void**>(&pinned), 2 * sizeof(float)), "cudaMallocHost");
  pinned[0] = 1, pinned[1] = 2;
  cudaStream_t copies = nullptr;
  check_cuda(cudaStreamCreateWithFlags(&copies, cudaStreamNonBlocking), "stream");
  check_cuda(cudaMemcpyAsync(data, pinned, sizeof(float), cudaMemcpyHostToDevice, nullptr), "copy");
  if (!options.ahead) launch(copy_one, 1, 1, 0, nullptr, data, out);
  check_cuda(cudaMemcpyAsync(data, pinned + 1, sizeof(float), cudaMemcpyHostToDevice, copies), "copy");
  launch(copy_one, 1, 1, 0, nullptr, data, out);
  return read(out, 1)[0];
}
void run_copy_not_waited_for() {
  std::printf("the kernel behind a copy finds what was before it: %g\n",
              static_cast<double>(after_a_copy({.deferred = true})));
}
void run_overwriting_copy() {
  std::printf("the copy that was to come second came first: %g\n",
              static_cast<double>(after_a_copy({.deferred = true, .ahead = true})));
}
void run_host_read() {
  simt::explain_faults();
  const simt::OptionsGuard guard({.guard = true});
  float* data = on_device<float>(16);
  launch(write_one, 1, 1, 0, nullptr, data);
  std::printf("%g\n", static_cast<double>(data[2]));
}
void run_host_write() {
  simt::explain_faults();
  const simt::OptionsGuard guard({.guard = true});
  float* data = on_device<float>(16);
  launch(write_one, 1, 1, 0, nullptr, data);
  data[3] = 1;
}
void run_wrong_copy() {
  say_error([] {
    float value = 0;
    check_cuda(cudaMemcpy(&value, on_device<float>(1), sizeof value, cudaMemcpyHostToDevice), "copy");
  });
}

__global__ void sum_of_two(const float* in, float* out) { *out = in[0] + in[1]; }
void run_uninitialised() {
  float *in = on_device<float>(2), *out = on_device<float>(1);
  check_cuda(cudaMemsetAsync(in, 0, sizeof(float), nullptr), "memset");  // one of two
  launch(sum_of_two, 1, 1, 0, nullptr, in, out);
  std::printf("uninitialised device memory gives %g\n", static_cast<double>(std::abs(read(out, 1)[0])));
}
__global__ void sum_of_shared(float* out) { *out = dynamic_shared<float>()[1]; }
void run_uninitialised_shared() {
  float* out = on_device<float>(1);
  launch(sum_of_shared, 1, 1, 2 * sizeof(float), nullptr, out);
  std::printf("uninitialised shared memory gives %g\n", static_cast<double>(std::abs(read(out, 1)[0])));
}

// ---- limits of a launch ----

void launch_nothing(dim3 grid, dim3 block, size_t shared) {
  say_error([&] { launch(write_one, grid, block, shared, nullptr, static_cast<float*>(nullptr)); });
}
void run_too_many_threads() { launch_nothing(1, 1025, 0); }
void run_too_deep_a_block() { launch_nothing(1, dim3(1, 1, 65), 0); }
void run_no_blocks() { launch_nothing(0, 32, 0); }
void run_too_wide_a_grid() { launch_nothing(dim3(1, 65536), 32, 0); }
void run_too_much_shared() { launch_nothing(1, 32, simt::most_shared_bytes + 1); }
void run_shared_unasked() {
  cudaLaunchConfig_t config{};
  config.dynamicSmemBytes = 48 * 1024 + 4;
  say_error([&] { check_cuda(cudaLaunchKernelEx(&config, shared_bounds), "kernel launch"); });
}
struct Large {
  char bytes[40000];
};
__global__ void large_argument(Large) {}
void run_large_argument() {
  say_error([] { launch(large_argument, 1, 1, 0, nullptr, Large{}); });
}

std::string at(int line) { return "faults.cpp:" + std::to_string(line); }

// The faults of one kind each; the words are what the process must say.
using Faults = std::vector<PlantedFault>;
const std::vector<Build> all_builds{Build::plain, Build::tsan, Build::asan};

Faults races() {
  const auto race = [](int one, int other) { return std::vector<std::string>{"data race", at(one), at(other)}; };
  const std::vector<Build> tsan{Build::tsan};
  return {
      {"missing_barrier", run_missing_barrier, {Build::plain, Build::asan}, {"wrong result in order forward"}},
      {"missing_barrier_race", run_missing_barrier, tsan, race(missing_barrier_line, missing_barrier_line + 1)},
      {"write_after_read", run_write_after_read, tsan, race(write_after_read_line, write_after_read_line + 2)},
      {"warp_synchrony", run_warp_synchrony, tsan, race(warp_synchrony_line, warp_synchrony_line + 1)},
      {"global_race", run_global_race, tsan, race(global_race_line - 1, global_race_line)},
      {"block_order", run_block_order, all_builds, {"wrong result in order reverse"}},
  };
}

Faults wrong_addresses() {
  const std::vector<Build> asan{Build::asan}, others{Build::plain, Build::tsan};
  return {
      {"out_of_bounds", run_out_of_bounds, asan, {"AddressSanitizer", at(out_of_bounds_line)}},
      {"far_out_of_bounds", run_far_out_of_bounds, others, {"simt: out of bounds: a write at byte 4096"}},
      {"use_after_free", run_use_after_free, others, {"simt: write of device memory that is not allocated"}},
      {"shared_bounds", run_shared_bounds, asan, {"AddressSanitizer", at(shared_bounds_line)}},
      {"static_bounds", run_static_bounds, asan, {"out of bounds", at(static_bounds_line)}},
      {"misaligned", run_misaligned, asan, {"misaligned address", at(misaligned_line)}},
      {"deep_stack", run_deep_stack, {Build::plain}, {"simt: the stack of thread 0 of block (0, 0, 0) is full"}},
      {"host_read", run_host_read, others, {"simt: host read of device memory: byte 8 of allocation 1"}},
      {"host_write", run_host_write, others, {"simt: host write of device memory: byte 12 of allocation 1"}},
      {"wrong_copy", run_wrong_copy, all_builds, {"the target of a copy is not where its kind says"}},
  };
}

Faults barriers() {
  return {
      {"barrier_in_a_branch",
       run_barrier_in_a_branch,
       all_builds,
       {"deadlock: thread 2 of block (0, 0, 0) has ended, while 63 wait in __syncthreads at faults.cpp:"}},
      {"two_barriers", run_two_barriers, all_builds, {"deadlock: thread 2 of block (0, 0, 0) waits in __syncthreads"}},
      {"shuffle_in_a_branch", run_shuffle_in_a_branch, all_builds, {"deadlock: thread 5 ", "while 31 wait in __shfl"}},
      {"foreign_mask", run_foreign_mask, all_builds, {"thread 0 of block (0, 0, 0) is not in its own mask"}},
      {"missing_lanes", run_missing_lanes, all_builds, {"for lanes that its block of 20 threads does not have"}},
  };
}

Faults forgotten() {
  return {
      {"missing_synchronisation",
       run_missing_synchronisation,
       all_builds,
       {"read before the stream was waited for", "and then it is 1"}},
      {"copy_not_waited_for", run_copy_not_waited_for, all_builds, {"finds what was before it: 1"}},
      {"overwriting_copy", run_overwriting_copy, all_builds, {"that was to come second came first: 1"}},
      {"uninitialised", run_uninitialised, all_builds, {"device memory gives nan"}},
      {"uninitialised_shared", run_uninitialised_shared, all_builds, {"shared memory gives nan"}},
  };
}

Faults over_the_limits() {
  return {
      {"too_many_threads", run_too_many_threads, all_builds, {"threads of a block: 1025, expected 1 to 1024"}},
      {"too_deep_a_block", run_too_deep_a_block, all_builds, {"threads of a block along z: 65, expected 1 to 64"}},
      {"no_blocks", run_no_blocks, all_builds, {"blocks along x: 0, expected 1 to"}},
      {"too_wide_a_grid", run_too_wide_a_grid, all_builds, {"blocks along y: 65536, expected 1 to 65535"}},
      {"too_much_shared", run_too_much_shared, all_builds, {"shared memory of a kernel: "}},
      {"shared_unasked", run_shared_unasked, all_builds, {"49156 bytes of dynamic shared memory", "limit is 49152"}},
      {"large_argument", run_large_argument, all_builds, {"bytes of arguments: 40000, expected 1 to 32764"}},
  };
}

}  // namespace

const std::vector<PlantedFault>& planted_faults() {
  static const Faults all = [] {
    Faults every;
    for (const Faults& some : {races(), wrong_addresses(), barriers(), forgotten(), over_the_limits()}) {
      every.insert(every.end(), some.begin(), some.end());
    }
    return every;
  }();
  return all;
}

std::string output_of_fault(const std::string& name) {
  std::array<char, 4096> path{};
  if (readlink("/proc/self/exe", path.data(), path.size() - 1) < 0) return "no path to this program";
  const std::string command =
      "ASAN_OPTIONS=detect_leaks=0 '" + std::string(path.data()) + "' --fault " + name + " 2>&1";
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(command.c_str(), "r"), pclose);
  std::string output;
  std::array<char, 4096> part{};
  while (pipe && std::fgets(part.data(), part.size(), pipe.get())) output += part.data();
  return output;
}

}  // namespace mixtape::simt_tests
