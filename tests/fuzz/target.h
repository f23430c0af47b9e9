// A fuzz target is one file here: it defines check(bytes), which returns for input that is understood, throws
// mixtape::Error for input that is refused, and calls require() for what must then hold. Everything else is a find.
#pragma once

#include <cstdlib>
#include <iostream>
#include <string_view>

namespace mixtape::fuzz {

void check(std::string_view bytes);

inline void require(bool holds, const char* what) {
  if (holds) return;
  std::cerr << "fuzz: does not hold: " << what << "\n";
  std::abort();
}

}  // namespace mixtape::fuzz
