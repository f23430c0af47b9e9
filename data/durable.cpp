#include "data/durable.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <utility>

#include "core/error.h"

namespace mixtape::data {
namespace {
/// A system call, made again as long as a signal interrupts it.
template <class Call>
int again(Call call) {
  int result = -1;
  do {
    result = call();
  } while (result < 0 && errno == EINTR);
  return result;
}
}  // namespace

int open_again(const std::string& path, int flags) {
  return again([&] { return ::open(path.c_str(), flags | O_CLOEXEC, 0666); });
}

bool is_disk_full(int error) { return error == ENOSPC || error == EDQUOT || error == EFBIG; }

void fail_write(const std::string& path, int error) {
  fail(ErrorKind::io, is_disk_full(error) ? "E-IO-NOSPACE" : "E-IO-WRITE",
       message(path, ": cannot be written: ", std::strerror(error)));
}

void write_all(int descriptor, const std::string& path, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t done = ::write(descriptor, bytes.data(), bytes.size());
    if (done < 0 && errno == EINTR) continue;
    if (done <= 0) fail_write(path, done < 0 ? errno : EIO);
    bytes = bytes.subspan(static_cast<size_t>(done));
  }
}

void sync_descriptor(int descriptor, const std::string& path) {
  if (again([&] { return ::fsync(descriptor); }) != 0) fail_write(path, errno);
}

DurableFile::DurableFile(std::string path) : path_(std::move(path)) {
  descriptor_ = open_again(path_, O_WRONLY | O_CREAT | O_TRUNC);
  if (descriptor_ < 0) fail_write(path_, errno);
}

DurableFile::~DurableFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void DurableFile::write(std::span<const std::byte> bytes) {
  write_all(descriptor_, path_, bytes);
  size_ += bytes.size();
}

void DurableFile::close() {
  sync_descriptor(descriptor_, path_);
  struct stat info {};
  if (::fstat(descriptor_, &info) != 0) fail_write(path_, errno);
  if (static_cast<uint64_t>(info.st_size) != size_) {
    fail(ErrorKind::io, "E-IO-WRITE",
         message(path_, ": ", size_, " bytes were written, but the file has ", int64_t{info.st_size}));
  }
  // After EINTR the descriptor is closed all the same, and what it held is on the disk since fsync.
  if (::close(std::exchange(descriptor_, -1)) != 0 && errno != EINTR) fail_write(path_, errno);
}

void sync_directory(const std::string& path) {
  const int descriptor = open_again(path, O_RDONLY | O_DIRECTORY);
  if (descriptor < 0) fail_write(path, errno);
  const int error = again([&] { return ::fsync(descriptor); }) == 0 ? 0 : errno;
  ::close(descriptor);
  // EINVAL: this file system cannot sync a directory, and keeps its names durable in its own way.
  if (error != 0 && error != EINVAL) fail_write(path, error);
}

void truncate_durably(const std::string& path, uint64_t size) {
  const int descriptor = open_again(path, O_WRONLY | O_CREAT);
  if (descriptor < 0) fail_write(path, errno);
  const bool cut = again([&] { return ::ftruncate(descriptor, static_cast<off_t>(size)); }) == 0 &&
                   again([&] { return ::fsync(descriptor); }) == 0;
  const int error = cut ? 0 : errno;
  ::close(descriptor);
  if (error != 0) fail_write(path, error);
}

std::string parent_directory(const std::string& path) {
  const size_t slash = path.rfind('/');
  if (slash == std::string::npos) return ".";
  return slash == 0 ? "/" : path.substr(0, slash);
}

void rename_durably(const std::string& from, const std::string& to) {
  if (std::rename(from.c_str(), to.c_str()) != 0) fail_write(to, errno);
  sync_directory(parent_directory(to));
}

int rename_to_free(const std::string& from, const std::string& to) {
  if (::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), RENAME_NOREPLACE) == 0) return 0;
  if (errno != EINVAL && errno != ENOSYS) return errno;
  struct stat info {};  // a file system without that flag
  if (::lstat(to.c_str(), &info) == 0) return EEXIST;
  return std::rename(from.c_str(), to.c_str()) == 0 ? 0 : errno;
}

int replace_directory(const std::string& made, const std::string& target) {
  const int error = rename_to_free(made, target);
  if (error != EEXIST && error != ENOTEMPTY) return error;
  if (::renameat2(AT_FDCWD, made.c_str(), AT_FDCWD, target.c_str(), RENAME_EXCHANGE) == 0) return 0;
  if (errno != EINVAL && errno != ENOSYS) return errno;
  const std::string old = made + ".old";
  if (std::rename(target.c_str(), old.c_str()) != 0) return errno;
  if (std::rename(made.c_str(), target.c_str()) != 0) {
    const int failed = errno;
    std::rename(old.c_str(), target.c_str());
    return failed;
  }
  return std::rename(old.c_str(), made.c_str()) == 0 ? 0 : errno;
}

}  // namespace mixtape::data
