// Device memory: an arena of its own, so that every access from the wrong side, beyond an end or after a free can be
// told from others.
#pragma once

#include <cstddef>
#include <string>

namespace mixtape::simt {

/// What the device has.
inline constexpr size_t arena_bytes = size_t{256} << 20;
/// `bytes` of poison, aligned to 256; null when the arena is full.
void* device_allocate(size_t bytes);
/// False when `pointer` was not given out, or is free already.
bool device_free(void* pointer);
/// Whether [from, from + bytes) lies inside one live allocation.
bool on_device(const void* from, size_t bytes);
/// Whether an address lies in the arena at all.
bool in_arena(const void* address);

/// While one lives, device memory may be touched: kernels and copies run. They nest.
class DeviceAccess {
 public:
  DeviceAccess();
  ~DeviceAccess();
  DeviceAccess(const DeviceAccess&) = delete;
  DeviceAccess& operator=(const DeviceAccess&) = delete;
};

/// Makes an access that the guard forbids, or the end of a fiber's stack, end the process with a sentence on stderr.
void explain_faults();
/// The exit status that such a process ends with.
inline constexpr int fault_status = 86;

}  // namespace mixtape::simt
