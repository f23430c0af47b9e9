// What the kernel tests count.
#pragma once

#include <set>
#include <string>

namespace mixtape::simt_tests {

/// What the last line of the program counts.
struct Tally {
  std::set<std::string> rows;
  int cases = 0;
};
inline Tally& tally() {
  static Tally instance;
  return instance;
}

}  // namespace mixtape::simt_tests
