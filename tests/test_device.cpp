// Devices without a device: what is refused, how a module is found, and the allocator that both machines share.
// Tensors that do live on one: tests/simt.
#include <doctest/doctest.h>

#include "core/caching_allocator.h"
#include "core/device_module.h"
#include "core/factory.h"
#include "core/kernels/loops.h"

using namespace mixtape;

namespace {

constexpr Device some_gpu{DeviceKind::cuda, 0};

template <class F>
std::string device_refusal(const F& f, const char* words) {
  try {
    f();
  } catch (const Error& error) {
    const std::string said = error.what();
    INFO(said);
    CHECK(said.find(words) != std::string::npos);
    return error.code();
  }
  return "";
}

// A system with room for a few bytes.
class SmallSystem final : public CachingAllocator {
 public:
  int64_t left = 1000, given_back = 0;

 protected:
  void* take(size_t bytes) override {
    if (static_cast<int64_t>(bytes) > left) return nullptr;
    left -= static_cast<int64_t>(bytes);
    return ::operator new(bytes);
  }
  void give_back(void* block) noexcept override {
    ::operator delete(block);
    ++given_back;
    left += 512;
  }
};

}  // namespace

TEST_CASE("device: names") {
  CHECK(name_of(Device{}) == "cpu");
  CHECK(name_of(Device{DeviceKind::cuda, 3}) == "cuda:3");
}

TEST_CASE("device: without one, nothing is put there") {
  if (device_count() > 0) return;
  CHECK(device_refusal([] { empty({2}, DType::f32, some_gpu); }, "there is no cuda:0") == "E-DEVICE");
  CHECK(device_refusal([] { to(zeros({2}), some_gpu); }, "use the CPU") == "E-DEVICE");
  const Tensor x = zeros({2});
  CHECK(to(x, {}).same_as(x));
}

TEST_CASE("device: a file that is no module") {
  const auto load = [](const char* path) { return [path] { load_device_module(path); }; };
  bool loaded = false;  // where a module for CUDA was built, the cases above have found it
  try {
    load("/nowhere/module.so")();
  } catch (const Error& error) {
    loaded = std::string(error.what()).find("another one was loaded before") != std::string::npos;
  }
  CHECK(device_refusal(load("/nowhere/module.so"), loaded ? "another one" : "cannot be loaded") == "E-DEVICE-MODULE");
  CHECK(device_refusal(load("libm.so.6"), loaded ? "another one" : "is no module of Mixtape") == "E-DEVICE-MODULE");
}

TEST_CASE("device: no row and no loop of the CPU takes a device's tensor") {
  OpSchema row = *find_op("gelu");
  row.device_forward = nullptr;
  row.device_backward = nullptr;
  CHECK(device_refusal([&] { row.forward_on(some_gpu); }, "gelu: has no kernel for cuda:0") == "E-DEVICE-KERNEL");
  CHECK(device_refusal([&] { row.backward_on(some_gpu); }, "gelu: has no kernel for cuda:0") == "E-DEVICE-KERNEL");
  const bool on_cpu = row.forward_on({}) == row.forward;
  CHECK(on_cpu);
  const Tensor x = zeros({2});
  View far = x.view();
  far.device = some_gpu;
  const auto map = [&] { kernels::map(kernels::Identity{}, far, x.view()); };
  CHECK(device_refusal(map, "compiled for the CPU") == "E-DEVICE-KERNEL");
  const auto copy = [&] { kernels::copy(x.view(), far); };
  CHECK(device_refusal(copy, "operands lie on cuda:0 and cpu") == "E-DEVICE-MIXED");
}

TEST_CASE("device: an allocator gives back what it keeps before it gives up") {
  SmallSystem system;
  void* first = system.allocate(500);
  system.free(first, 500);
  CHECK(system.stats().reserved_bytes == 512);
  CHECK(system.allocate(500) == first);
  system.free(first, 500);
  void* other = system.allocate(700);  // of another class: only what is kept leaves room for it
  CHECK(system.given_back == 1);
  CHECK(device_refusal([&] { system.allocate(700); }, "cannot allocate 700 bytes") == "E-MEMORY");
  system.free(other, 700);
  system.release_cached();
  CHECK(system.stats().reserved_bytes == 0);
  CHECK(system.stats().live_bytes == 0);
  CHECK(system.stats().system_allocations == 2);
}
