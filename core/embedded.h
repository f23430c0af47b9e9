// Files that are compiled into the program (cmake/embed.cmake).
#pragma once

#include <string_view>

namespace mixtape {

struct EmbeddedFile {
  std::string_view name;  ///< without its folder
  std::string_view bytes;
};

/// What a generated list function returns: its files in the order of their names.
struct EmbeddedFiles {
  const EmbeddedFile* first = nullptr;
  int count = 0;
  const EmbeddedFile* begin() const { return first; }
  const EmbeddedFile* end() const { return first + count; }
};

}  // namespace mixtape
