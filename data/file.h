// Files: descriptors that close themselves, whole files with a size limit, lines, and text for messages about them.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/error.h"
#include "data/durable.h"

namespace mixtape::data {

/// A file open for reading. A missing file or a directory (for kind model, anything but a regular file) is an Error of
/// the given kind and code; a file that cannot be read (permission, disk) is kind io, E-IO-READ. Both name the path.
class InputFile {
 public:
  InputFile(std::string path, ErrorKind kind, const std::string& code);
  InputFile(InputFile&& other) noexcept : path_(std::move(other.path_)), descriptor_(other.descriptor_) {
    other.descriptor_ = -1;
  }
  InputFile& operator=(InputFile&&) = delete;
  ~InputFile();

  const std::string& path() const { return path_; }
  /// Where the open file really lies, all links followed.
  std::string real_path() const;
  uint64_t size() const;
  /// Reads bytes from `offset` on until `target` is full or the file ends; returns how many.
  size_t read_at(uint64_t offset, std::span<std::byte> target) const;
  /// Reads on from where the last call stopped: for pipes too. Zero at the end.
  size_t read_next(std::span<std::byte> target);

 private:
  std::string path_;
  int descriptor_ = -1;
};

/// A file that appears under its name complete or not at all: written beside it, synced and renamed by commit(),
/// removed without it. A file that stood there is replaced. After commit() it is on the disk, name and all. Errors are
/// kind io and name the path: E-IO-NOSPACE, E-IO-WRITE.
class OutputFile {
 public:
  explicit OutputFile(std::string path);
  OutputFile(const OutputFile&) = delete;
  OutputFile& operator=(const OutputFile&) = delete;
  ~OutputFile();

  void write(std::span<const std::byte> bytes) { file_.write(bytes); }
  void commit();

 private:
  std::string path_, temporary_;
  DurableFile file_;
  bool committed_ = false;
};

/// The whole file. More than `max_bytes` is an Error of the given kind and code that names both sizes.
std::string read_file(const std::string& path, ErrorKind kind, const std::string& code, uint64_t max_bytes);

/// The lines of a text: it is cut at LF and nowhere else (U+2028, U+0085 and lone CRs are text), one CR before an LF
/// goes with it, and a last line may lack its LF.
std::vector<std::string_view> split_lines(std::string_view text);

/// `text` without a leading UTF-8 byte order mark.
std::string_view skip_bom(std::string_view text);

/// `text` in quotes for a message: at most 40 bytes, anything but printable ASCII as \xNN.
std::string quoted(std::string_view text);

/// "path:line", as every message about a line of a file begins. `line` counts from 1.
std::string at_line(const std::string& path, size_t line);

}  // namespace mixtape::data
