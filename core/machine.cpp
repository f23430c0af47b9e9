// No stream's number parsing is used, so that no locale can change a figure.
#include "core/machine.h"

#include <sched.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <thread>

#include "core/error.h"

namespace mixtape {

std::string first_line(const std::string& path) {
  std::ifstream in(path);
  std::string line;
  std::getline(in, line);
  return line;
}

int64_t number_in(std::string_view text) {
  int64_t value = 0;
  std::from_chars(text.data(), text.data() + text.size(), value);
  return std::max<int64_t>(value, 0);
}

std::vector<std::string> cgroup_directories(const std::string& root, const std::string& controller) {
  std::ifstream in(root + "/proc/self/cgroup");
  std::string path = "/";
  for (std::string line; std::getline(in, line);) {
    const size_t first = line.find(':'), second = line.find(':', first + 1);
    if (first == std::string::npos || second == std::string::npos) continue;
    const std::string controllers = message(",", line.substr(first + 1, second - first - 1), ",");
    if (controllers.find(message(",", controller, ",")) != std::string::npos) path = line.substr(second + 1);
  }
  const std::string base = root + "/sys/fs/cgroup" + (controller.empty() ? "" : "/" + controller);
  std::vector<std::string> out;
  for (std::filesystem::path at = path; at.has_relative_path(); at = at.parent_path())
    out.push_back(base + at.string());
  out.push_back(base);
  return out;
}

double cgroup_cpu_limit(const std::string& root) {
  double least = 0;
  const auto consider = [&](int64_t microseconds, int64_t every) {
    if (microseconds <= 0 || every <= 0) return;
    const double cores = static_cast<double>(microseconds) / static_cast<double>(every);
    least = least == 0 ? cores : std::min(least, cores);
  };
  for (const std::string& directory : cgroup_directories(root, "")) {
    const std::string most = first_line(directory + "/cpu.max");  // "50000 100000", "max 100000"
    const size_t blank = most.find(' ');
    if (blank != std::string::npos) consider(number_in(most), number_in(std::string_view(most).substr(blank + 1)));
  }
  for (const std::string& directory : cgroup_directories(root, "cpu")) {
    consider(number_in(first_line(directory + "/cpu.cfs_quota_us")),
             number_in(first_line(directory + "/cpu.cfs_period_us")));
  }
  return least;
}

int affinity_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  const int cores = sched_getaffinity(0, sizeof set, &set) == 0 ? CPU_COUNT(&set)
                                                                : static_cast<int>(std::thread::hardware_concurrency());
  return std::max(1, cores);
}

int usable_cores(const std::string& root) {
  const double limit = cgroup_cpu_limit(root);
  const int cores = affinity_cores();
  return limit > 0 && limit < cores ? static_cast<int>(std::ceil(limit)) : cores;
}

}  // namespace mixtape
