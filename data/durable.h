// Durable files: what was written is on the disk with its full size, or there is an error that names the path.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

namespace mixtape::data {

/// open(2), closed on exec, again after an interruption: a descriptor, or -1 with errno. New files get mode 0666.
int open_again(const std::string& path, int flags);

/// ENOSPC, EDQUOT, EFBIG: errors that room on the disk would cure.
bool is_disk_full(int error);

/// Throws kind io, naming the path: E-IO-NOSPACE for a full disk, a quota or a limit of file sizes, else E-IO-WRITE.
[[noreturn]] void fail_write(const std::string& path, int error);

/// Writes all of `bytes` to a descriptor, however many calls that takes.
void write_all(int descriptor, const std::string& path, std::span<const std::byte> bytes);

/// fsync, again after an interruption: an error of the disk is reported once, and here is where it is heard.
void sync_descriptor(int descriptor, const std::string& path);

/// A file that is written once, from its start, and is on the disk after close(). Without close() it stays as it is.
class DurableFile {
 public:
  explicit DurableFile(std::string path);
  DurableFile(const DurableFile&) = delete;
  DurableFile& operator=(const DurableFile&) = delete;
  ~DurableFile();

  void write(std::span<const std::byte> bytes);
  /// Syncs, reads the size back and closes.
  void close();
  uint64_t size() const { return size_; }

 private:
  std::string path_;
  int descriptor_ = -1;
  uint64_t size_ = 0;
};

/// Cuts a file to `size` bytes, or makes one of so many zeros; on the disk when it returns.
void truncate_durably(const std::string& path, uint64_t size);

/// Makes the names in a directory durable.
void sync_directory(const std::string& path);

/// The directory that `path` lies in; "." when it names none.
std::string parent_directory(const std::string& path);

/// rename(2), durable: the parent directory is synced too.
void rename_durably(const std::string& from, const std::string& to);

/// rename(2) that takes only a free name: another program may have taken it in between. 0 or the errno (EEXIST,
/// ENOTEMPTY: it is taken). Not synced.
int rename_to_free(const std::string& from, const std::string& to);

/// Puts the directory `made` in the place of `target`; what stood there, if anything, has the name `made` afterwards.
/// Whoever looks finds the old one or the new one at every moment, except on a file system that cannot exchange names:
/// there `target` is missing between two calls. 0 or the errno. Not synced.
int replace_directory(const std::string& made, const std::string& target);

}  // namespace mixtape::data
