// Which module of device code was found, and what it says of the machine: for people who ask why there is no device.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace mixtape {

/// What a module's `mixtape_device_facts` returns: plain data, so that a module of other sources can be asked too.
struct DeviceFacts {
  static constexpr int most_devices = 16;
  struct Gpu {
    char name[256];
    int major, minor;  ///< compute capability
    int64_t memory_bytes;
  };
  const char* architectures;  ///< it has code for, separated by blanks: "sm_90a ptx_90a"
  int status;                 ///< what cudaGetDeviceCount returned; 0: success
  const char* error;          ///< the same in CUDA's words
  int driver, runtime;  ///< versions of CUDA, 13000 for 13.0: the newest that the driver knows (0: no driver), ours
  int count;            ///< of `devices`, at most most_devices
  Gpu devices[most_devices];
};

struct DeviceReport {
  std::vector<std::string> looked;  ///< for a module: paths, and last a name that the system was asked for
  std::string module;               ///< what was found there; empty: nothing
  std::string refusal;              ///< why it could not be used: the text of E-DEVICE-MODULE; empty: it was loaded
  bool has_facts = false;
  DeviceFacts facts{};
};
/// Looks for a module as device_count() does, and loads it.
DeviceReport device_report();
/// Why there is no device, for people; empty when there is one.
std::string why_no_device(const DeviceReport& report);

/// Whether code for these architectures runs on a device (CUDA C++ Programming Guide, "Application compatibility"):
/// machine code within a major version from its minor version on, PTX from its version on, and code whose name ends in
/// "a" on that version alone.
bool runs_on(const std::string& architectures, int major, int minor);

}  // namespace mixtape
