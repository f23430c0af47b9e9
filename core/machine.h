// What the system grants this process, from /proc and /sys. Everything takes a `root` that stands before these: tests
// bring their own machine.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace mixtape {

/// First line of a file, "" when there is none.
std::string first_line(const std::string& path);

/// The number that a text starts with; 0 for "max", "-1" and the like.
int64_t number_in(std::string_view text);

/// The directories of this process's cgroup in one hierarchy, from its own up to the root. `controller` is "" for
/// version 2. Inside a container the path may be one of the host's: what is not there holds no files.
std::vector<std::string> cgroup_directories(const std::string& root, const std::string& controller);

/// Cores' worth of time that its cgroups allow, of both versions and all ancestors the least; 0: no limit.
double cgroup_cpu_limit(const std::string& root = "");

/// Cores that the process may be scheduled on, not those that the machine has. At least 1.
int affinity_cores();

/// What is worth a thread each: the smaller of the two, the limit rounded up. At least 1.
int usable_cores(const std::string& root = "");

}  // namespace mixtape
