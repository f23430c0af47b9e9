// The words of CUDA that the runner gives to kernels: what each returns, in every order, and what a launch costs.
#include <doctest/doctest.h>

#include "core/kernels/block.cuh"
#include "tests/simt/both.cuh"

namespace mixtape::simt_tests {
namespace {

using kernels::device::launch;
using kernels::device::whole_warp;

/// What one thread saw.
struct Seen {
  int up, down, across, mixed, sub, any, all, count;
  unsigned ballot;
};

__global__ void warp_words_kernel(Seen* seen) {
  const int lane = static_cast<int>(threadIdx.x % 32);
  Seen own{};
  own.up = __shfl_up_sync(whole_warp, lane, 3);
  own.down = __shfl_down_sync(whole_warp, lane, 30);
  own.across = __shfl_sync(whole_warp, lane * 10, 7);
  own.mixed = __shfl_xor_sync(whole_warp, lane, 5);
  own.sub = __shfl_sync(whole_warp, lane, 1, 8);
  own.ballot = __ballot_sync(whole_warp, lane % 3 == 0);
  own.any = __any_sync(whole_warp, lane == 40);
  own.all = __all_sync(whole_warp, lane < 40);
  const unsigned half_of_warp = lane < 16 ? 0x0000ffffu : 0xffff0000u;  // two masks wait side by side
  own.count = __popc(__ballot_sync(half_of_warp, lane >= 14));
  seen[threadIdx.x] = own;
}

__global__ void coordinates_kernel(int* places) {
  const unsigned block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
  const unsigned thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  const unsigned threads = blockDim.x * blockDim.y * blockDim.z;
  atomicAdd(places + block * threads + thread, 1);
}

__global__ void sum_kernel(float* out) {
  const kernels::device::BlockLanes block;
  const float sum = block.sum(1000, [](int64_t i) { return static_cast<float>(i); });
  const float largest = block.max(1000, [](int64_t i) { return i == 77 ? 5.0f : -1.0f; });
  const float again = block.sum(10, [](int64_t) { return 1.0f; });
  out[threadIdx.x] = sum + 1000000.0f * largest + again;
}

}  // namespace

TEST_CASE("shuffles and votes") {
  const DeviceBytes room(nullptr, 64 * sizeof(Seen));
  in_all_orders([&] {
    launch(warp_words_kernel, 1, 64, 0, nullptr, reinterpret_cast<Seen*>(room.data()));
    const std::vector<char> bytes = room.read();
    for (int t = 0; t < 64; ++t) {
      Seen own;
      std::memcpy(&own, bytes.data() + static_cast<size_t>(t) * sizeof own, sizeof own);
      const int lane = t % 32;
      CHECK(own.up == (lane < 3 ? lane : lane - 3));
      CHECK(own.down == (lane < 2 ? lane + 30 : lane));
      CHECK(own.across == 70);
      CHECK(own.mixed == (lane ^ 5));
      CHECK(own.sub == lane / 8 * 8 + 1);
      CHECK(own.ballot == 0x49249249u);
      CHECK(own.any == 0);
      CHECK(own.all == 1);
      CHECK(own.count == (lane < 16 ? 2 : 16));
    }
  });
}

TEST_CASE("every thread of every block runs once, and knows its place") {
  const dim3 grid(3, 2, 4), block(5, 3, 2);
  constexpr size_t all = 3 * 2 * 4 * 5 * 3 * 2;
  const std::vector<int> nothing(all, 0);
  const DeviceBytes room(nothing.data(), all * sizeof(int));
  in_all_orders([&] {
    room.reset();
    launch(coordinates_kernel, grid, block, 0, nullptr, reinterpret_cast<int*>(room.data()));
    const std::vector<char> bytes = room.read();
    std::vector<int> counts(all);
    std::memcpy(counts.data(), bytes.data(), bytes.size());
    CHECK(counts == std::vector<int>(all, 1));
  });
}

TEST_CASE("a block reduces to the same bits in every thread") {
  for (const unsigned threads : {32u, 64u, 256u, 1024u}) {
    const DeviceBytes room(nullptr, threads * sizeof(float));
    in_all_orders([&] {
      launch(sum_kernel, 1, threads, 0, nullptr, reinterpret_cast<float*>(room.data()));
      const std::vector<char> bytes = room.read();
      for (size_t t = 0; t < threads; ++t) {
        float value = 0;
        std::memcpy(&value, bytes.data() + t * sizeof value, sizeof value);
        CHECK(value == 499500.0f + 5000000.0f + 10.0f);
      }
    });
  }
}

#if defined(MIXTAPE_SIMT)
TEST_CASE("work of a stream waits for whoever waits for it, and only for that stream's") {
  const simt::OptionsGuard guard({.deferred = true});
  cudaStream_t one = nullptr, other = nullptr;
  check_cuda(cudaStreamCreate(&one), "stream");
  check_cuda(cudaStreamCreate(&other), "stream");
  const DeviceBytes room(nullptr, 64 * sizeof(Seen));
  const auto launches = [] { return simt::counts().launches; };
  const int64_t before = launches();
  launch(warp_words_kernel, 1, 64, 0, one, reinterpret_cast<Seen*>(room.data()));
  launch(warp_words_kernel, 1, 64, 0, other, reinterpret_cast<Seen*>(room.data()));
  CHECK(launches() == before);
  check_cuda(cudaStreamSynchronize(one), "synchronise");
  CHECK(launches() == before + 1);
  check_cuda(cudaDeviceSynchronize(), "synchronise");
  CHECK(launches() == before + 2);
  check_cuda(cudaStreamDestroy(one), "stream");
  check_cuda(cudaStreamDestroy(other), "stream");
}

TEST_CASE("an event is ready when its stream has come to it, and a wait is counted") {
  void* pinned = nullptr;
  cudaEvent_t event = nullptr;
  REQUIRE(cudaMallocHost(&pinned, sizeof(float)) == cudaSuccess);
  REQUIRE(cudaEventCreateWithFlags(&event, cudaEventDisableTiming) == cudaSuccess);
  const DeviceBytes room(nullptr, sizeof(float));
  CHECK(cudaEventQuery(event) == cudaSuccess);  // nothing was recorded
  {
    const simt::OptionsGuard guard({.deferred = true, .guard = true});
    *static_cast<float*>(pinned) = 3;
    const int64_t waited = simt::waits();
    CHECK(cudaMemcpyAsync(room.data(), pinned, sizeof(float), cudaMemcpyHostToDevice, nullptr) == cudaSuccess);
    CHECK(cudaEventRecord(event, nullptr) == cudaSuccess);
    CHECK(cudaEventQuery(event) == cudaErrorNotReady);
    CHECK(simt::waits() == waited);
    CHECK(cudaDeviceSynchronize() == cudaSuccess);
    CHECK(cudaEventQuery(event) == cudaSuccess);
    CHECK(simt::waits() == waited + 1);
  }
  float value = 0;
  const std::vector<char> bytes = room.read();
  std::memcpy(&value, bytes.data(), sizeof value);
  CHECK(value == 3);
  cudaEventDestroy(event);
  cudaFreeHost(pinned);
}
#endif

}  // namespace mixtape::simt_tests
