// Batches that come on a stream of their own while the device computes. The runner lets that stream run as late as
// events allow (deferred), and as early (ahead): a wait that is missing shows in one of them.
#include <doctest/doctest.h>

#include <numeric>

#include "core/caching_allocator.h"
#include "core/kernels/uploads.cuh"
#include "tests/simt/both.cuh"

#if defined(MIXTAPE_SIMT)
namespace mixtape::simt_tests {
namespace {

using kernels::device::launch;
using kernels::device::Uploads;

class Memory final : public CachingAllocator {
 public:
  ~Memory() override { release_cached(); }

 protected:
  void* take(size_t bytes) override {
    void* block = nullptr;
    return cudaMalloc(&block, bytes) == cudaSuccess ? block : nullptr;
  }
  void give_back(void* block) noexcept override { cudaFree(block); }
};

constexpr int batch_size = 100, batches = 12;

__global__ void sum_of_batch(const int* batch, int* sums, int place) {
  if (threadIdx.x != 0) return;
  int sum = 0;
  for (int i = 0; i < batch_size; ++i) sum += batch[i];
  sums[place] = sum;
}

std::vector<int> sums_of(Uploads& uploads) {
  const DeviceBytes room(nullptr, batches * sizeof(int));
  std::vector<int> batch(batch_size);
  const int64_t waited = simt::waits();
  for (int i = 0; i < batches; ++i) {
    std::iota(batch.begin(), batch.end(), i);
    void* there = uploads.allocate(batch_size * sizeof(int));
    uploads.upload(there, batch.data(), batch_size * sizeof(int));
    std::fill(batch.begin(), batch.end(), -1);  // the host's bytes are its own again
    launch(sum_of_batch, 1, 32, 0, nullptr, static_cast<const int*>(there), reinterpret_cast<int*>(room.data()), i);
    uploads.free(there, batch_size * sizeof(int));
  }
  CHECK(simt::waits() == waited);
  std::vector<int> sums(batches);
  const std::vector<char> bytes = room.read();
  std::memcpy(sums.data(), bytes.data(), bytes.size());
  return sums;
}

void check_sums(const simt::Options& options, size_t most_bytes) {
  const simt::OptionsGuard guard(options);
  Memory memory;
  Uploads uploads(memory, most_bytes);
  const std::vector<int> sums = sums_of(uploads);
  for (int i = 0; i < batches; ++i)
    CHECK(sums[static_cast<size_t>(i)] == batch_size * (batch_size - 1) / 2 + i * batch_size);
  CHECK(uploads.stats().live_bytes == 0);
  CHECK(uploads.stats().reserved_bytes <= static_cast<int64_t>(most_bytes));
  uploads.release_cached();
  CHECK(uploads.stats().reserved_bytes == 0);
}

}  // namespace

TEST_CASE("batches come while the device computes, and the host waits for none of them") {
  for (const size_t most_bytes : {size_t{1} << 20, size_t{2} * 4096, size_t{4096}}) {
    CAPTURE(most_bytes);
    check_sums({.guard = true}, most_bytes);
    check_sums({.deferred = true, .guard = true}, most_bytes);
    check_sums({.deferred = true, .ahead = true, .guard = true}, most_bytes);
  }
}

TEST_CASE("memory for batches is used again as soon as the device is through with them") {
  Memory memory;
  Uploads uploads(memory);
  (void)sums_of(uploads);
  CHECK(uploads.stats().reserved_bytes == 4096);  // immediate mode: always through
  const simt::OptionsGuard guard({.deferred = true});
  (void)sums_of(uploads);
  CHECK(uploads.stats().reserved_bytes == 4096 * batches);  // the host was all batches ahead
  CHECK(uploads.stats().system_allocations == batches);
  (void)sums_of(uploads);
  CHECK(uploads.stats().system_allocations == batches);
  uploads.release_cached();
}

}  // namespace mixtape::simt_tests
#endif
