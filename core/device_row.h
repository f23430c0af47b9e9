// What op files know of being device code: compiled with MIXTAPE_DEVICE_MODULE their rows are not added to the
// program's table, but to a list that the module hands over when it is loaded (core/device_module.h).
#pragma once

#include <vector>

namespace mixtape {

struct OpSchema;

/// A row as device code: its functions, and where to note which row of the program's table it is.
struct DeviceRow {
  const OpSchema* compiled;
  const OpSchema** row;
};

/// A function of a module that is no row's. Who calls it (device_function) and who provides it agree on its type.
struct DeviceFunction {
  const char* name;
  void (*run)();
};

namespace detail {
#if defined(MIXTAPE_DEVICE_MODULE)
inline constexpr bool is_device_code = true;
inline std::vector<DeviceRow>& device_rows() {
  static std::vector<DeviceRow> rows;
  return rows;
}
inline std::vector<DeviceFunction>& device_functions() {
  static std::vector<DeviceFunction> functions;
  return functions;
}
/// At namespace scope of device code: hands a function to the program under a name.
struct ProvideFunction {
  template <class Function>
  ProvideFunction(const char* name, Function* function) {
    device_functions().push_back({name, reinterpret_cast<void (*)()>(function)});
  }
};
#else
inline constexpr bool is_device_code = false;
#endif
}  // namespace detail

}  // namespace mixtape
