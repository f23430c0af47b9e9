// Zip files of uncompressed members, as PyTorch writes them: a thin layer over libzip that bounds what it allocates.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "data/byte_source.h"
#include "data/parsed.h"

namespace mixtape::data {

struct ZipMember {
  std::string name;
  uint64_t bytes = 0;   ///< uncompressed
  bool stored = false;  ///< neither compressed nor encrypted: the only kind that can be read
};

class ZipFile {
 public:
  /// `source` must outlive the result. Members are sorted by name, all different. Throws only what the source throws.
  static Parsed<ZipFile> open(const ByteSource& source);
  ZipFile(ZipFile&&) noexcept;
  ~ZipFile();

  const std::vector<ZipMember>& members() const { return members_; }
  const ZipMember* find(std::string_view name) const;  ///< null when there is none

  /// Reads from byte `offset` of a member on. Returns why that failed, or nothing. A member that is read whole is
  /// checked against its checksum.
  std::string read(const ZipMember& member, uint64_t offset, std::span<std::byte> target) const;

 private:
  struct Archive;
  explicit ZipFile(std::unique_ptr<Archive> archive);
  std::string list();

  std::unique_ptr<Archive> archive_;
  std::vector<ZipMember> members_;
  std::vector<uint64_t> places_;  // libzip's number of each
};

}  // namespace mixtape::data
