// Safetensors files: an 8-byte little-endian length, a JSON header of that length, then the tensors' bytes without
// gaps.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/parameter.h"
#include "core/shape.h"
#include "data/file.h"
#include "data/parsed.h"

namespace mixtape::data {

struct TensorEntry {
  std::string name;
  DType dtype = DType::f32;
  Shape shape;
  uint64_t offset = 0;  ///< of the first byte, from the start of the file
  uint64_t bytes = 0;   ///< numel · size of the dtype
};

using Metadata = std::map<std::string, std::string>;

struct SafeTensorsHeader {
  std::vector<TensorEntry> tensors;  ///< sorted by name
  Metadata metadata;
};

/// The header's length N from the first 8 bytes of a file of `file_size` bytes: at most the limit, and 8 + N <=
/// file_size.
Parsed<uint64_t> parse_header_length(std::span<const std::byte> file_start, uint64_t file_size);

/// Checks all that a file of `file_size` bytes says of itself; `file_start` holds at least the length and the header.
/// Stricter than the format's usual reader in this: no leading blanks, no padding but spaces, no duplicate or unknown
/// keys, no NUL in names, at most 8 dimensions, only dtypes that DType has. Never throws (but bad_alloc) and never
/// trusts a number.
Parsed<SafeTensorsHeader> parse_safetensors(std::span<const std::byte> file_start, uint64_t file_size);

/// A safetensors file open for reading (read, never mapped: a file cut under a map would kill the process).
class SafeTensorsFile {
 public:
  /// Errors are kind model and name the path: E-FILE-MISSING, E-FILE-SAFETENSORS (and what is wrong).
  static SafeTensorsFile open(const std::string& path);
  static SafeTensorsFile open(InputFile file);

  const std::string& path() const { return file_.path(); }
  const std::vector<TensorEntry>& tensors() const { return header_.tensors; }  ///< sorted by name
  const Metadata& metadata() const { return header_.metadata; }
  const TensorEntry* find(std::string_view name) const;  ///< null when there is none

  /// Reads a tensor's bytes into memory of exactly that size, aligned or not. Throws E-FILE-TRUNCATED when the file has
  /// been cut since, E-FILE-BOOL for a truth value other than 0 and 1.
  void read(const TensorEntry& entry, std::span<std::byte> target) const;
  Tensor read(const TensorEntry& entry) const;

 private:
  SafeTensorsFile(InputFile file, SafeTensorsHeader header) : file_(std::move(file)), header_(std::move(header)) {}

  InputFile file_;
  SafeTensorsHeader header_;
};

/// What Hugging Face's loaders want to find.
Metadata default_metadata();

/// Gives `sink` the bytes of a file, piece by piece. Equal tensors give equal bytes: wide dtypes first (so that every
/// tensor is aligned, which some readers need), then by name; the header is padded with spaces to a multiple of 8.
/// Throws E-FILE-NAME (model) for a name that is empty, `__metadata__`, too long, not UTF-8, holds NUL or comes twice.
void write_safetensors(const std::function<void(std::span<const std::byte>)>& sink, NamedTensors tensors,
                       const Metadata& metadata = default_metadata());
/// The same into a file that appears complete or not at all (see OutputFile).
void write_safetensors(const std::string& path, NamedTensors tensors, const Metadata& metadata = default_metadata());

}  // namespace mixtape::data
