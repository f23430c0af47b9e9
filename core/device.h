// Where bytes live.
#pragma once

#include <cstdint>

namespace mixtape {

enum class DeviceKind : uint8_t { cpu, cuda };

struct Device {
  DeviceKind kind = DeviceKind::cpu;
  int8_t index = 0;
  bool is_cpu() const { return kind == DeviceKind::cpu; }
  friend bool operator==(Device, Device) = default;
};

}  // namespace mixtape
