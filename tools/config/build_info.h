// What this program is and where it runs: for --version, doctor and run.json.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace mixtape::config {

/// Facts fixed when the program was built.
struct BuildInfo {
  std::string version;       ///< "0.1.0"
  std::string compiler;      ///< "g++ 12.2.0"
  std::string architecture;  ///< what -march got: "native", "x86-64-v3"
  std::string instructions;  ///< what the compiler may use because of it: "avx2 avx512f avx512_bf16 f16c"
  std::string gemm;          ///< "onednn" or "eigen"
  std::string gemm_version;  ///< "2.7.3"
};
BuildInfo build_info();

/// Facts of the machine, read when asked for. A value that the system does not tell is "" or 0.
struct MachineInfo {
  std::string cpu;                        ///< the model name
  std::string system;                     ///< "Linux 6.1.0"
  int cores = 0;                          ///< that this process may use: the smaller of the next two, rounded up
  int affinity = 0;                       ///< cores that it may be scheduled on
  double cpu_limit = 0;                   ///< cores' worth of time that its cgroups allow; 0: no limit
  int64_t memory = 0;                     ///< bytes in all, or the cgroup's limit where that is less
  int64_t memory_total = 0;               ///< bytes in all
  int64_t memory_limit = 0;               ///< bytes that its cgroups allow; 0: no limit
  int64_t memory_free = 0;                ///< bytes that can be had without swapping, within that limit
  std::vector<std::string> instructions;  ///< those of the sets we care about that the CPU has
  std::string cuda_driver;                ///< version of the NVIDIA kernel driver, "" without one
  std::vector<std::string> gpus;          ///< the models that it drives
};
/// `root` stands before /proc and /sys: tests bring their own machine. Both cgroup versions are read, with all
/// ancestors.
MachineInfo machine_info(const std::string& root = "");

/// Free bytes for unprivileged users where `path` lies; -1 when that cannot be told.
int64_t free_disk(const std::string& path);

}  // namespace mixtape::config
