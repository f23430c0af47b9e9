// Where bytes live.
#pragma once

#include <cstdint>
#include <string>

namespace mixtape {

enum class DeviceKind : uint8_t { cpu, cuda };

struct Device {
  DeviceKind kind = DeviceKind::cpu;
  int8_t index = 0;
  bool is_cpu() const { return kind == DeviceKind::cpu; }
  friend bool operator==(Device, Device) = default;
};
std::string name_of(Device device);  ///< "cpu", "cuda:0"

}  // namespace mixtape
