#include "core/device_module.h"

#include <dlfcn.h>
#include <link.h>

#include <atomic>
#include <filesystem>
#include <map>
#include <mutex>

namespace mixtape {
namespace {

constexpr const char* module_file = "libmixtape_cuda.so";

struct Loaded {
  std::mutex mutex;
  bool searched = false;
  std::atomic<DeviceBackend*> backend = nullptr;
  std::map<std::string_view, void (*)()> functions;  // constant once there is a backend
};
Loaded& loaded() {
  static Loaded& state = *new Loaded;  // never destroyed: tensors in static storage may outlive it
  return state;
}

[[noreturn]] void fail_module(const std::string& path, const std::string& why) {
  fail(ErrorKind::internal, "E-DEVICE-MODULE", message("device module '", path, "': ", why));
}

// The module stays in memory for ever: rows, tapes and freed tensors point into it.
void load(const std::string& path) {
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (!handle) fail_module(path, message("cannot be loaded: ", dlerror()));
  void* entry = dlsym(handle, "mixtape_device_module");
  if (!entry) fail_module(path, "is no module of Mixtape: it has no mixtape_device_module");
  const DeviceModule module = reinterpret_cast<DeviceModule (*)()>(entry)();
  const std::string stale = "was built from other sources than this program: build both anew";
  if (module.layout != device_layout()) fail_module(path, stale);
  for (int i = 0; i < module.row_count; ++i) {
    const DeviceRow& row = module.rows[i];
    *row.row = detail::add_device_functions(*row.compiled);
    if (!*row.row)
      fail_module(path, message("its row '", row.compiled->info->name, "' is not this program's: it ", stale));
  }
  for (int i = 0; i < module.function_count; ++i) {
    loaded().functions.emplace(module.functions[i].name, module.functions[i].run);
  }
  loaded().backend = module.backend;
}

// Where the code of this function lies: the program, or libmixtape.so. Empty when the system does not say.
std::filesystem::path own_folder() {
  Dl_info info{};
  link_map* map = nullptr;
  const void* here = reinterpret_cast<const void*>(&own_folder);
  if (!dladdr1(here, &info, reinterpret_cast<void**>(&map), RTLD_DL_LINKMAP)) return {};
  std::error_code unknown;
  const char* file = map && *map->l_name ? map->l_name : "/proc/self/exe";  // the program has no name there
  return std::filesystem::canonical(file, unknown).parent_path();
}

// A module that is not there is no error; one that is there and broken is.
void search() {
  const std::filesystem::path own = own_folder();
  for (const std::filesystem::path& folder : {own, own.parent_path() / "lib"}) {
    std::error_code unknown;
    const std::filesystem::path file = folder / module_file;
    if (!own.empty() && std::filesystem::exists(file, unknown)) return load(file.string());
  }
  if (void* handle = dlopen(module_file, RTLD_LAZY | RTLD_LOCAL)) {
    dlclose(handle);
    load(module_file);
  }
}

DeviceBackend* backend() {
  Loaded& state = loaded();
  if (DeviceBackend* found = state.backend) return found;
  const std::lock_guard lock(state.mutex);
  if (!state.backend && !state.searched) {
    state.searched = true;
    search();
  }
  return state.backend;
}

}  // namespace

std::string name_of(Device device) {
  return device.is_cpu() ? "cpu" : message("cuda:", static_cast<int>(device.index));
}

void load_device_module(const std::string& path) {
  const std::lock_guard lock(loaded().mutex);
  if (loaded().backend) fail_module(path, "another one was loaded before");
  load(path);
}

int device_count() {
  const DeviceBackend* found = backend();
  return found ? found->count() : 0;
}

DeviceBackend& device_backend(Device device) {
  DeviceBackend* found = backend();
  if (!found || device.index >= found->count()) {
    fail(ErrorKind::internal, "E-DEVICE",
         message("there is no ", name_of(device), found ? "" : ": no module of device code was found",
                 ": use the CPU, or build with MIXTAPE_CUDA=ON on a machine with a GPU"));
  }
  return *found;
}

void (*detail::device_function(Device device, std::string_view name))() {
  device_backend(device);
  const auto found = loaded().functions.find(name);
  if (found == loaded().functions.end()) {
    fail(ErrorKind::internal, "E-DEVICE-KERNEL",
         message(name, ": has no function for ", name_of(device), ": compile its file as device code"));
  }
  return found->second;
}

DeviceBackend& device_backend(const char* what, std::initializer_list<const View*> views) {
  const View* first = nullptr;
  for (const View* view : views) {
    if (!*view) continue;
    if (first && !(view->device == first->device)) {
      fail(ErrorKind::internal, "E-DEVICE-MIXED",
           message(what, ": operands lie on ", name_of(first->device), " and ", name_of(view->device),
                   ": move one of them with to()"));
    }
    if (!first) first = view;
  }
  return device_backend(first ? first->device : Device{});
}

}  // namespace mixtape
