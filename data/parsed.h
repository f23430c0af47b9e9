// What parsers of bytes that one does not trust have in common: they return a reason instead of throwing, and multiply
// with a check.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "core/dtype.h"

namespace mixtape::data {

/// A value, or why there is none: what a parser of untrusted bytes returns instead of throwing.
template <class T>
struct Parsed {
  std::optional<T> value;
  std::string error;  ///< empty exactly if there is a value
};

/// What a weight file of any format may have at most; checked before anything is allocated for it.
namespace weight_limit {
inline constexpr uint64_t header_bytes = 100'000'000;  ///< of the part that says which tensors there are
inline constexpr size_t tensors = 65'536;
inline constexpr size_t name_bytes = 512;
}  // namespace weight_limit

/// The bytes of a tensor, or nothing when its product does not fit into 63 bits. A size of 0 hides no overflow: sizes
/// whose product over the others is too large are refused all the same.
std::optional<uint64_t> byte_count(std::span<const uint64_t> sizes, DType dtype);

/// What a file that is not of the expected format probably is, as the end of a sentence ("; it looks like a web
/// page: …"), or nothing. Looks at its first bytes.
std::string guess_format(std::span<const std::byte> file_start);

}  // namespace mixtape::data
