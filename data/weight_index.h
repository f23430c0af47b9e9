// The index of a checkpoint in several files: model.safetensors.index.json and pytorch_model.bin.index.json.
#pragma once

#include <cstddef>
#include <map>
#include <span>
#include <string>

#include "data/parsed.h"

namespace mixtape::data {

namespace index_limit {
inline constexpr size_t bytes = 16 << 20;
inline constexpr size_t shards = 256;  ///< all are open at the same time
inline constexpr int depth = 64;
}  // namespace index_limit

struct WeightIndex {
  std::map<std::string, std::string> shard_of;  ///< tensor → name of the file, a plain one without a folder
};

/// Reads `{"weight_map": {"tensor": "file", …}, …}`; other keys are skipped. A file name that is not plain ("../x",
/// "/x", "a/x"), a tensor that comes twice and nesting beyond 64 are errors that name the entry. Never throws (but
/// bad_alloc).
Parsed<WeightIndex> parse_weight_index(std::span<const std::byte> json);

}  // namespace mixtape::data
