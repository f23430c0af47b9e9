#include "core/device_module.h"

#include <dlfcn.h>
#include <link.h>

#include <algorithm>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <mutex>

#include "core/allocator.h"
#include "core/device_report.h"

namespace mixtape {
namespace {

constexpr const char* module_file = "libmixtape_cuda.so";

struct Loaded {
  std::mutex mutex;
  bool searched = false;
  DeviceReport report;  // what the search found, for people
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

void ask_facts(void* handle) {
  DeviceReport& report = loaded().report;
  void* entry = dlsym(handle, "mixtape_device_facts");
  if (!entry) return;  // of older sources
  report.facts = reinterpret_cast<DeviceFacts (*)()>(entry)();
  report.has_facts = true;
}

// The module stays in memory for ever: rows, tapes and freed tensors point into it.
void load(const std::string& path) {
  loaded().report.module = path;
  void* handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE);
  if (!handle) fail_module(path, message("cannot be loaded: ", dlerror()));
  ask_facts(handle);
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
  std::vector<std::string>& looked = loaded().report.looked;
  for (const std::filesystem::path& folder : {own, own.parent_path() / "lib"}) {
    if (own.empty()) break;
    std::error_code unknown;
    looked.push_back((folder / module_file).string());
    if (std::filesystem::exists(looked.back(), unknown)) return load(looked.back());
  }
  looked.emplace_back(module_file);
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

DeviceReport device_report() {
  std::string refusal;
  try {
    backend();
  } catch (const Error& error) {
    refusal = error.what();
  }
  const std::lock_guard lock(loaded().mutex);
  DeviceReport& report = loaded().report;
  if (!refusal.empty()) report.refusal = refusal;  // the search is made, and fails, once
  return report;
}

std::string why_no_device(const DeviceReport& report) {
  if (report.module.empty()) return "no module of device code was found (MIXTAPE_CUDA=ON builds it)";
  if (!report.refusal.empty()) return report.refusal;
  if (!report.has_facts) return "the module does not say what it found";
  if (report.facts.status != 0) {
    return message(report.facts.error, " (cudaGetDeviceCount: ", report.facts.status, ")");
  }
  return report.facts.count == 0 ? "CUDA sees no device" : "";
}

bool runs_on(const std::string& architectures, int major, int minor) {
  const int version = 10 * major + minor;
  size_t start = 0;
  while (start < architectures.size()) {
    const size_t end = std::min(architectures.find(' ', start), architectures.size());
    const std::string name = architectures.substr(start, end - start);
    start = end + 1;
    const size_t digits = name.find('_') + 1;
    const int code = std::atoi(name.c_str() + digits);
    const bool only_there = name.back() == 'a', ptx = name.starts_with("ptx");
    if (code == version) return true;
    if (!only_there && code < version && (ptx || code / 10 == major)) return true;
  }
  return false;
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

Allocator& allocator_of(Device device) {
  return device.is_cpu() ? cpu_allocator() : device_backend(device).allocator(device);
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
