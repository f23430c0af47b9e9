// Golden texts: what a command printed when it was looked at, and how near to that it must stay.
#pragma once

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdlib>
#include <sstream>
#include <string>

namespace mixtape::tests {

inline bool is_number(const std::string& word, double& value) {
  char* end = nullptr;
  value = std::strtod(word.c_str(), &end);
  const std::string rest = end;
  return end != word.c_str() && std::all_of(rest.begin(), rest.end(), [](char c) { return std::ispunct(c); });
}

/// "" where two texts have the same words and their numbers are near, else the first line that differs. Products are
/// added up in another order under another engine, and a training carries that on; so the picture is left out.
inline std::string text_fault(const std::string& wanted, const std::string& got, double relative = 0.05,
                              double absolute = 0.02) {
  std::istringstream wanted_lines(wanted), got_lines(got);
  for (std::string want, have; std::getline(wanted_lines, want);) {
    if (!std::getline(got_lines, have)) return "missing: " + want;
    if (want.find(" |") != std::string::npos) continue;
    std::istringstream want_words(want), have_words(have);
    for (std::string a, b; want_words >> a;) {
      double x = 0, y = 0;
      have_words >> b;
      const bool near = is_number(a, x) && is_number(b, y) && std::abs(x - y) <= relative * std::abs(x) + absolute;
      if (a != b && !near) return want + "\n" + have;
    }
    if (std::string rest; have_words >> rest) return want + "\n" + have;
  }
  return std::string(std::istreambuf_iterator<char>(got_lines), {});
}

}  // namespace mixtape::tests
