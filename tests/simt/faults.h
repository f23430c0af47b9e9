// Kernels and calls with a fault each, and the words in which the runner must tell of it.
#pragma once

#include <string>
#include <vector>

namespace mixtape::simt_tests {

/// Which build a program is: some faults only show under a sanitizer. Coverage looks at lines, in one order of blocks.
enum class Build { plain, tsan, asan, coverage };
#if defined(MIXTAPE_SIMT_TSAN)
inline constexpr Build this_build = Build::tsan;
#elif defined(MIXTAPE_SIMT_ASAN)
inline constexpr Build this_build = Build::asan;
#elif defined(MIXTAPE_SIMT_COVERAGE)
inline constexpr Build this_build = Build::coverage;
#else
inline constexpr Build this_build = Build::plain;
#endif

/// What the last line of the program counts.
inline int faults_planted = 0, faults_found = 0;

struct PlantedFault {
  const char* name;
  void (*run)();                   ///< prints what it found, or makes the process say it
  std::vector<Build> shows_in;     ///< the builds that find it
  std::vector<std::string> words;  ///< all must stand in what the process says
};
const std::vector<PlantedFault>& planted_faults();

/// Runs the fault `name` in a process of its own: everything that it says.
std::string output_of_fault(const std::string& name);

}  // namespace mixtape::simt_tests
