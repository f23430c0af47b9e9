// The header of a safetensors file. The mutator keeps the length in front in step with the header, most of the time.
#include "data/safetensors.h"

#include <cstring>
#include <limits>

#include "tests/fuzz/target.h"

extern "C" size_t LLVMFuzzerMutate(uint8_t* data, size_t size, size_t max_size);

extern "C" size_t LLVMFuzzerCustomMutator(uint8_t* data, size_t size, size_t max_size, unsigned seed) {
  size = LLVMFuzzerMutate(data, size, max_size);
  if (size < 8 || seed % 8 == 0) return size;
  uint64_t length = size - 8;
  for (size_t i = size; i > 8; --i) {  // behind the last brace there are the tensors' bytes
    if (data[i - 1] != '}') continue;
    length = i - 8;
    break;
  }
  std::memcpy(data, &length, sizeof length);
  return size;
}

namespace mixtape::fuzz {

void check(std::string_view bytes) {
  const auto file = std::as_bytes(std::span(bytes.data(), bytes.size()));
  const auto length = data::parse_header_length(file, bytes.size());
  const auto parsed = data::parse_safetensors(file, bytes.size());
  require(parsed.value.has_value() == parsed.error.empty(), "a value or an error");
  require(length.value.has_value() || !parsed.value, "no header without its length");
  if (!parsed.value) return;
  for (const data::TensorEntry& entry : parsed.value->tensors) {
    require(entry.offset >= 8 + *length.value && entry.offset <= bytes.size(), "a tensor begins behind the header");
    require(entry.bytes <= bytes.size() - entry.offset, "a tensor ends inside the file");
    require(entry.bytes == static_cast<uint64_t>(entry.shape.numel()) * size_of(entry.dtype), "bytes of the shape");
  }
}

}  // namespace mixtape::fuzz
