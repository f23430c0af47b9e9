// Hashes of files and tensors: XXH3-128, 32 hexadecimal digits, as in run.json.
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "core/parameter.h"

struct XXH3_state_s;

namespace mixtape::trainer {

/// Takes bytes piece by piece; equal bytes give equal digits, however they were cut.
class Hash {
 public:
  Hash();
  Hash(const Hash&) = delete;
  Hash& operator=(const Hash&) = delete;
  ~Hash();
  void add(std::span<const std::byte> bytes);
  void add(std::string_view text);
  /// The digest in its canonical (big-endian) order, as xxh128sum prints it.
  std::string digits() const;

 private:
  XXH3_state_s* state_;
};

/// Of a file's bytes. A missing one is E-IO-READ (io).
std::string hash_of_file(const std::string& path);

/// Of names, dtypes, shapes and bytes (row-major), in the given order.
std::string hash_of_tensors(const NamedTensors& tensors);

}  // namespace mixtape::trainer
