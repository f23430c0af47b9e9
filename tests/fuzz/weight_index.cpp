// The index of a checkpoint in several files: no name in it leads out of the folder.
#include "data/weight_index.h"

#include "tests/fuzz/target.h"

namespace mixtape::fuzz {

void check(std::string_view bytes) {
  const auto parsed = data::parse_weight_index(std::as_bytes(std::span(bytes.data(), bytes.size())));
  require(parsed.value.has_value() == parsed.error.empty(), "a value or an error");
  if (!parsed.value) return;
  for (const auto& [tensor, file] : parsed.value->shard_of) {
    require(!file.empty() && file != "." && file != "..", "a shard has a name");
    require(file.find('/') == std::string::npos && file.find('\0') == std::string::npos, "a shard's name is plain");
  }
}

}  // namespace mixtape::fuzz
