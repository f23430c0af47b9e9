// What /proc and /sys tell of the machine.
#include <sys/utsname.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "core/error.h"
#include "core/machine.h"
#include "tools/config/build_info.h"

namespace mixtape::config {
namespace {
namespace fs = std::filesystem;

/// What stands behind "name:" in a file of such lines.
std::string value_of(const std::string& path, std::string_view name) {
  std::ifstream in(path);
  for (std::string line; std::getline(in, line);) {
    if (line.compare(0, name.size(), name) != 0) continue;
    const size_t colon = line.find(':');
    const size_t start = colon == std::string::npos ? colon : line.find_first_not_of(" \t", colon + 1);
    return start == std::string::npos ? "" : line.substr(start);
  }
  return {};
}

/// Bytes of cached files that the kernel drops before it refuses memory: they count as used, and are not.
int64_t droppable(const std::string& stat_file, std::string_view name) {
  std::ifstream in(stat_file);
  for (std::string line; std::getline(in, line);) {
    if (line.compare(0, name.size(), name) == 0 && line[name.size()] == ' ')
      return number_in(std::string_view(line).substr(name.size() + 1));
  }
  return 0;
}

/// Version 1 writes "no limit" as the largest multiple of a page that 63 bits hold.
constexpr int64_t no_limit = int64_t{1} << 60;

struct MemoryLimit {
  int64_t limit = 0, used = 0;
};

MemoryLimit memory_limit(const std::string& root) {
  MemoryLimit tightest;
  const auto look = [&](const std::string& controller, const std::string& limit_file, const std::string& used_file,
                        std::string_view cached) {
    for (const std::string& directory : cgroup_directories(root, controller)) {
      const int64_t limit = number_in(first_line(directory + "/" + limit_file));
      if (limit <= 0 || limit >= no_limit) continue;
      const int64_t used =
          number_in(first_line(directory + "/" + used_file)) - droppable(directory + "/memory.stat", cached);
      if (tightest.limit == 0 || limit - used < tightest.limit - tightest.used) tightest = {limit, used};
    }
  };
  look("", "memory.max", "memory.current", "inactive_file");
  look("memory", "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file");
  return tightest;
}

void read_cores(const std::string& root, MachineInfo& out) {
  out.affinity = affinity_cores();
  out.cpu_limit = cgroup_cpu_limit(root);
  out.cores = usable_cores(root);
}

void read_memory(const std::string& root, MachineInfo& out) {
  const auto meminfo = [&](std::string_view name) { return number_in(value_of(root + "/proc/meminfo", name)) * 1024; };
  out.memory = out.memory_total = meminfo("MemTotal");
  out.memory_free = meminfo("MemAvailable");
  const MemoryLimit cgroup = memory_limit(root);
  if (cgroup.limit == 0 || cgroup.limit >= out.memory_total) return;
  out.memory = out.memory_limit = cgroup.limit;
  out.memory_free = std::clamp<int64_t>(cgroup.limit - cgroup.used, 0, out.memory_free);
}

/// The kernel driver's own files: they are there without any library of CUDA's.
void read_gpus(const std::string& root, MachineInfo& out) {
  // NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar  5 22:23:56 UTC 2024
  const std::string version = value_of(root + "/proc/driver/nvidia/version", "NVRM version");
  const size_t module = version.find("Module");
  if (module != std::string::npos) {
    const size_t start = version.find_first_of("0123456789", module);
    if (start != std::string::npos) out.cuda_driver = version.substr(start, version.find(' ', start) - start);
  }
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(root + "/proc/driver/nvidia/gpus", none)) {
    out.gpus.push_back(value_of(entry.path().string() + "/information", "Model"));
  }
  std::sort(out.gpus.begin(), out.gpus.end());
}

}  // namespace

MachineInfo machine_info(const std::string& root) {
  MachineInfo out;
  out.cpu = value_of(root + "/proc/cpuinfo", "model name");
  utsname names{};
  if (uname(&names) == 0) out.system = message(names.sysname, " ", names.release);
  read_cores(root, out);
  read_memory(root, out);
  read_gpus(root, out);
  const std::string flags = " " + value_of(root + "/proc/cpuinfo", "flags") + " ";
  for (const char* set : {"avx2", "fma", "f16c", "avx512f", "avx512_bf16", "avx512_fp16", "amx_bf16"}) {
    if (flags.find(message(" ", set, " ")) != std::string::npos) out.instructions.emplace_back(set);
  }
  return out;
}

int64_t free_disk(const std::string& path) {
  std::error_code error;
  const fs::space_info space = fs::space(path, error);
  return error ? -1 : static_cast<int64_t>(space.available);
}

}  // namespace mixtape::config
