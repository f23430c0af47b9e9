#include "tools/config/build_info.h"

#include <sched.h>
#include <sys/utsname.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "core/error.h"
#include "core/kernels/gemm.h"

namespace mixtape::config {
namespace {

/// First line of a file, "" when there is none.
std::string first_line(const std::string& path) {
  std::ifstream in(path);
  std::string line;
  std::getline(in, line);
  return line;
}

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

/// The number that a text starts with; 0 for "max" and the like.
int64_t number_in(const std::string& text) {
  int64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

int64_t meminfo(std::string_view name) { return number_in(value_of("/proc/meminfo", name)) * 1024; }

int usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  const int allowed = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set) : 0;
  std::istringstream quota(first_line("/sys/fs/cgroup/cpu.max"));
  std::string most, period;
  quota >> most >> period;
  const int64_t microseconds = number_in(most), every = number_in(period);
  if (microseconds <= 0 || every <= 0) return allowed;
  return std::min(allowed, static_cast<int>((microseconds + every - 1) / every));
}

void read_memory(MachineInfo& out) {
  out.memory = meminfo("MemTotal");
  out.memory_free = meminfo("MemAvailable");
  const int64_t limit = number_in(first_line("/sys/fs/cgroup/memory.max"));
  if (limit <= 0) return;
  out.memory = std::min(out.memory, limit);
  out.memory_free =
      std::clamp<int64_t>(limit - number_in(first_line("/sys/fs/cgroup/memory.current")), 0, out.memory_free);
}

std::string compiled_instructions() {
  std::string out;
#ifdef __AVX2__
  out += " avx2";
#endif
#ifdef __FMA__
  out += " fma";
#endif
#ifdef __F16C__
  out += " f16c";
#endif
#ifdef __AVX512F__
  out += " avx512f";
#endif
#ifdef __AVX512BF16__
  out += " avx512_bf16";
#endif
#ifdef __AMX_BF16__
  out += " amx_bf16";
#endif
  return out.empty() ? "baseline" : out.substr(1);
}

}  // namespace

BuildInfo build_info() {
#ifdef __clang__
  const std::string compiler = message("clang++ ", __clang_major__, ".", __clang_minor__, ".", __clang_patchlevel__);
#else
  const std::string compiler = message("g++ ", __GNUC__, ".", __GNUC_MINOR__, ".", __GNUC_PATCHLEVEL__);
#endif
  return {MIXTAPE_VERSION, compiler, MIXTAPE_ARCH_NAME, compiled_instructions(), kernels::gemm_engine()};
}

MachineInfo machine_info() {
  MachineInfo out;
  out.cpu = value_of("/proc/cpuinfo", "model name");
  utsname names{};
  if (uname(&names) == 0) out.system = message(names.sysname, " ", names.release);
  out.cores = usable_cores();
  read_memory(out);
  const std::string flags = " " + value_of("/proc/cpuinfo", "flags") + " ";
  for (const char* set : {"avx2", "fma", "f16c", "avx512f", "avx512_bf16", "avx512_fp16", "amx_bf16"}) {
    if (flags.find(message(" ", set, " ")) != std::string::npos) out.instructions.emplace_back(set);
  }
  return out;
}

int64_t free_disk(const std::string& path) {
  std::error_code error;
  const std::filesystem::space_info space = std::filesystem::space(path, error);
  return error ? -1 : static_cast<int64_t>(space.available);
}

}  // namespace mixtape::config
