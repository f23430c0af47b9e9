// Safetensors files made by hand, byte by byte, for the tests of the parser and of the reader.
#pragma once

#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "data/safetensors.h"

namespace mixtape::tests {

inline std::span<const std::byte> as_bytes(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

inline data::Parsed<data::SafeTensorsHeader> parse(std::string_view file) {
  return data::parse_safetensors(as_bytes(file), file.size());
}

/// Eight bytes, little end first: how a file begins.
inline std::string number(uint64_t value) {
  std::string out(8, '\0');
  std::memcpy(out.data(), &value, 8);
  return out;
}

/// A tensor's entry of the header.
inline std::string entry(const std::string& name, const std::string& dtype, const std::string& shape,
                         const std::string& offsets) {
  return "\"" + name + "\":{\"dtype\":\"" + dtype + "\",\"shape\":[" + shape + "],\"data_offsets\":[" + offsets + "]}";
}

/// What the writer makes of these tensors.
inline std::string written(const NamedTensors& tensors, const data::Metadata& metadata = data::default_metadata()) {
  std::string file;
  data::write_safetensors(
      [&file](std::span<const std::byte> bytes) {
        file.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
      },
      tensors, metadata);
  return file;
}

}  // namespace mixtape::tests
