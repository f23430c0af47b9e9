// The module of device code: a shared object beside the program that holds the kernels of all rows and what allocates,
// copies and computes on a device. Loaded when a device is first asked for; without it there is the CPU alone.
#pragma once

#include <initializer_list>
#include <string>
#include <string_view>

#include "core/kernels/basic.h"
#include "core/kernels/gemm.h"
#include "core/op.h"
#include "core/rng.h"

namespace mixtape {

class Allocator;

/// What a module provides beside the functions of rows. Work starts in the order of the calls and is not waited for,
/// but where a function says so. Contracts of the kernels: core/kernels/{basic,gather,gemm}.h; their arguments lie on
/// one device.
class DeviceBackend {
 public:
  virtual ~DeviceBackend() = default;
  /// Devices that can be used; 0 where a driver or the hardware is missing, for whatever reason.
  virtual int count() const = 0;
  /// Memory that may be freed while work that reads it still waits.
  virtual Allocator& allocator(Device device) = 0;
  /// Copies bytes from or to a device, after all work before. The bytes are free when this returns: it waits for those
  /// that come to the CPU, and for many that go to the device.
  virtual void copy_bytes(void* to, Device to_device, const void* from, Device from_device, size_t bytes) = 0;
  /// A copy of the host's bytes on the device, which are free when this returns. It comes there while the device
  /// computes, and work after this sees it. For what no work writes: batches.
  virtual Storage upload(const void* from, size_t bytes, Device device) = 0;
  /// Waits for all work. Throws E-CUDA for what went wrong since the last wait.
  virtual void synchronize() = 0;

  virtual void fill(const View& out, double value) = 0;
  virtual void copy(const View& in, const View& out) = 0;
  virtual void scale(const View& in, double factor, const View& out) = 0;
  virtual void add_scaled(const View& a, double fa, const View& b, double fb, const View& out) = 0;
  virtual kernels::Census census(const View& in) = 0;  ///< waits
  virtual void gather_rows(const View& source, const View& index, const View& out) = 0;
  virtual void sum_rows(const View& in, const View& index, const View& out, int64_t skipped) = 0;
  virtual void gather_elements(const View& source, const View& index, int axis, const View& out) = 0;
  virtual void sum_elements(const View& in, const View& index, int axis, const View& out) = 0;
  virtual void gemm(const View& a, const View& b, const View& c, const kernels::GemmOptions& options) = 0;
};

/// What a module's `mixtape_device_module` returns.
struct DeviceModule {
  uint64_t layout;  ///< device_layout() as the module saw it
  DeviceBackend* backend;
  const DeviceRow* rows;
  int row_count;
  const DeviceFunction* functions;
  int function_count;
};
/// A number that differs where the structures that program and module share do.
constexpr uint64_t device_layout() {
  uint64_t sum = 2;  // counts the changes of DeviceBackend, whose functions have no size
  for (const size_t size : {sizeof(OpInfo), sizeof(OpSchema), sizeof(View), sizeof(Views), sizeof(Tensor),
                            sizeof(Tensors), sizeof(RngCoordinates), sizeof(kernels::GemmOptions)}) {
    sum = sum * 1031 + size;
  }
  return sum;
}

/// Loads a module and gives its functions to the rows. One a process, and it stays. Throws E-DEVICE-MODULE when the
/// file cannot be loaded or was built from other sources, and when there is one already.
void load_device_module(const std::string& path);

/// How many devices there are: 0 without a module, or without hardware. The first call looks for libmixtape_cuda.so
/// beside the program or library that this is part of, in ../lib from there, and where the system looks.
int device_count();

namespace detail {
void (*device_function(Device device, std::string_view name))();
}

/// What drives `device`. Throws E-DEVICE when it is not there.
DeviceBackend& device_backend(Device device);
/// What `device` has under that name: a function of type Function, by contract. Throws E-DEVICE, and E-DEVICE-KERNEL
/// where the module has none.
template <class Function>
Function* device_function(Device device, std::string_view name) {
  return reinterpret_cast<Function*>(detail::device_function(device, name));
}
/// The same for the one device that all views lie on; absent ones lie anywhere. Throws E-DEVICE-MIXED, naming `what`.
DeviceBackend& device_backend(const char* what, std::initializer_list<const View*> views);

}  // namespace mixtape
