#include "data/parsed.h"

#include <limits>
#include <string_view>

namespace mixtape::data {

std::optional<uint64_t> byte_count(std::span<const uint64_t> sizes, DType dtype) {
  constexpr uint64_t largest = static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
  uint64_t product = static_cast<uint64_t>(size_of(dtype));
  bool zero = false;
  for (const uint64_t size : sizes) {
    zero = zero || size == 0;
    if (size != 0 && product > largest / size) return std::nullopt;
    product *= size == 0 ? 1 : size;
  }
  return zero ? 0 : product;
}

std::string guess_format(std::span<const std::byte> file_start) {
  const std::string_view start(reinterpret_cast<const char*>(file_start.data()), file_start.size());
  if (start.starts_with("PK\x03\x04"))
    return "; it looks like a zip: a PyTorch checkpoint (pytorch_model.bin) renamed?";
  if (start.starts_with("\x80\x02")) return "; it looks like a pickle: an old PyTorch checkpoint renamed?";
  if (start.starts_with("<")) return "; it looks like a web page: a download that went wrong?";
  if (start.starts_with("version ")) return "; it looks like a git-lfs pointer: fetch the file itself";
  return "";
}

}  // namespace mixtape::data
