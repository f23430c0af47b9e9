// What many tests need: the folder of golden data, folders that vanish, and the error that a call throws.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "core/error.h"

namespace mixtape::tests {

/// `piece`, `count` times.
inline std::string repeated(std::string_view piece, size_t count) {
  std::string out;
  for (size_t i = 0; i < count; ++i) out += piece;
  return out;
}

/// "data/golden/x" → its path in the folder of golden data (the CMake variable MIXTAPE_SHARED).
inline std::string shared_path(const std::string& relative) { return std::string(MIXTAPE_SHARED_DIR "/") + relative; }

/// True, with a line on stderr, when this machine has no golden data. A test that needs it returns then.
inline bool no_shared() {
  if (std::filesystem::is_directory(MIXTAPE_SHARED_DIR "/data")) return false;
  std::cerr << "skipped: no ../shared\n";
  return true;
}

/// The bytes of a file; a missing one ends the test program, because then the data are not what the test was written
/// for.
inline std::string slurp(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    std::cerr << "cannot read " << path << "\n";
    std::abort();
  }
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

/// A new empty folder, removed with everything in it at the end of the scope.
class TempFolder {
 public:
  TempFolder() {
    std::string name = (std::filesystem::temp_directory_path() / "mixtape-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) std::abort();
    path_ = name;
  }
  TempFolder(const TempFolder&) = delete;
  TempFolder& operator=(const TempFolder&) = delete;
  ~TempFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  std::string path() const { return path_; }
  std::string path(const std::string& name) const { return path_ + "/" + name; }
  /// Writes a file and returns its path.
  std::string write(const std::string& name, std::string_view bytes) const {
    std::ofstream(path(name), std::ios::binary) << bytes;
    return path(name);
  }

 private:
  std::string path_;
};

/// The Error that `f()` throws; empty when it throws none.
template <class F>
std::optional<Error> error_of(F&& f) {
  try {
    std::forward<F>(f)();
  } catch (const Error& error) {
    return error;
  }
  return std::nullopt;
}

/// "E-CODE: message" of the Error that `f()` throws, or "no error": for CHECKs that print what came instead.
template <class F>
std::string error_text(F&& f) {
  const std::optional<Error> error = error_of(std::forward<F>(f));
  return error ? error->code() + ": " + error->what() : "no error";
}

inline bool contains(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

}  // namespace mixtape::tests
