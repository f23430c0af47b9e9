// What a module of device code provides beside its rows: memory, copies, and the kernels that are no loops of formulas.
// One device a process (CUDA_VISIBLE_DEVICES says which), one stream: work runs in the order of the calls. Batches come
// by another one.
#include "core/caching_allocator.h"
#include "core/device_module.h"

#include "core/kernels/basic.cuh"
#include "core/kernels/gather.cuh"
#include "core/kernels/gemm.cuh"
#include "core/kernels/gemm_cuda.h"
#include "core/kernels/staging.cuh"
#include "core/kernels/uploads.cuh"

namespace mixtape::kernels::device {
namespace {

// A block that was freed may be given out again at once: whoever gets it works behind all that still uses it.
class DeviceAllocator final : public CachingAllocator {
 public:
  Uploads& uploads() { return uploads_; }
  void release_cached() override {
    CachingAllocator::release_cached();
    uploads_.release_cached();
  }
#if defined(MIXTAPE_SIMT)
  // For tests: what lies beyond the end or was freed is NaN, or no memory at all.
  void free(void* block, size_t bytes) override {
    cudaMemsetAsync(block, simt::poison, bytes, nullptr);
    CachingAllocator::free(block, bytes);
  }

 protected:
  size_t size_class(size_t bytes) const override { return bytes; }
#endif
 protected:
  void* take(size_t bytes) override {
    void* block = nullptr;
    if (cudaMalloc(&block, bytes) == cudaSuccess) return block;
    uploads_.release_cached();
    if (cudaMalloc(&block, bytes) == cudaSuccess) return block;
    cudaGetLastError();  // said by the null pointer
    return nullptr;
  }
  void give_back(void* block) noexcept override { cudaFree(block); }  // waits for who uses it

 private:
  Uploads uploads_{*this};
};

int usable_devices() {
  int count = 0;
  return cudaGetDeviceCount(&count) == cudaSuccess && count > 0 ? 1 : 0;
}

cudaMemcpyKind direction(Device to, Device from) {
  if (to.is_cpu()) return from.is_cpu() ? cudaMemcpyHostToHost : cudaMemcpyDeviceToHost;
  return from.is_cpu() ? cudaMemcpyHostToDevice : cudaMemcpyDeviceToDevice;
}

class Backend final : public DeviceBackend {
 public:
  int count() const override { return count_; }
  Allocator& allocator(Device) override { return allocator_; }
  void copy_bytes(void* to, Device to_device, const void* from, Device from_device, size_t bytes) override {
    if (bytes == 0) return;
    if (from_device.is_cpu() && !to_device.is_cpu() && bytes <= Staging::most_bytes) {
      return staging_.upload(to, from, bytes, nullptr);
    }
    const cudaMemcpyKind kind = direction(to_device, from_device);
    const bool waits = kind != cudaMemcpyDeviceToDevice;
    check_cuda(waits ? cudaMemcpy(to, from, bytes, kind) : cudaMemcpyAsync(to, from, bytes, kind, nullptr), "copy");
  }
  Storage upload(const void* from, size_t bytes, Device device) override {
    Uploads& uploads = allocator_.uploads();
    Storage there(bytes, device, uploads);
    uploads.upload(there.data(), from, bytes);
    return there;
  }
  void synchronize() override { check_cuda(cudaDeviceSynchronize(), "waiting for the device"); }

  void fill(const View& out, double value) override { device::fill(out, value); }
  void copy(const View& in, const View& out) override { device::copy(in, out); }
  void scale(const View& in, double factor, const View& out) override { device::scale(in, factor, out); }
  void add_scaled(const View& a, double fa, const View& b, double fb, const View& out) override {
    device::add_scaled(a, fa, b, fb, out);
  }
  Census census(const View& in) override { return device::census(in); }
  void gather_rows(const View& source, const View& index, const View& out) override {
    device::gather_rows(source, index, out);
  }
  void sum_rows(const View& in, const View& index, const View& out, int64_t skipped) override {
    device::sum_rows(in, index, out, skipped);
  }
  void gather_elements(const View& source, const View& index, int axis, const View& out) override {
    device::gather_elements(source, index, axis, out);
  }
  void sum_elements(const View& in, const View& index, int axis, const View& out) override {
    device::sum_elements(in, index, axis, out);
  }
  void gemm(const View& a, const View& b, const View& c, const GemmOptions& options) override {
#if defined(MIXTAPE_SIMT)  // the op table looks at kernels; calls of the library have a test of their own
    device::gemm(a, b, c, options);
#else
    library_gemm(a, b, c, options);
#endif
  }

 private:
  const int count_ = usable_devices();
  DeviceAllocator allocator_;
  Staging staging_;
};

}  // namespace
}  // namespace mixtape::kernels::device

extern "C" __attribute__((visibility("default"))) mixtape::DeviceModule mixtape_device_module() {
  // Never destroyed: tensors in static storage may outlive every other static object.
  static mixtape::DeviceBackend& backend = *new mixtape::kernels::device::Backend;
  const std::vector<mixtape::DeviceRow>& rows = mixtape::detail::device_rows();
  const std::vector<mixtape::DeviceFunction>& functions = mixtape::detail::device_functions();
  return {mixtape::device_layout(),      &backend,         rows.data(),
          static_cast<int>(rows.size()), functions.data(), static_cast<int>(functions.size())};
}
