#include "data/file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

namespace mixtape::data {
namespace {
[[noreturn]] void fail_read(const std::string& path, int error) {
  fail(ErrorKind::io, "E-IO-READ", message(path, ": cannot be read: ", std::strerror(error)));
}
}  // namespace

InputFile::InputFile(std::string path, ErrorKind kind, const std::string& code) : path_(std::move(path)) {
  // Opening a pipe that nobody writes to would wait for ever: a model's file comes from strangers and is never one.
  descriptor_ = open_again(path_, O_RDONLY | (kind == ErrorKind::model ? O_NONBLOCK : 0));
  if (descriptor_ < 0) {
    const int error = errno;
    if (error != ENOENT && error != ENOTDIR) fail_read(path_, error);
    fail(kind, code, message(path_, ": no such file; check the path"));
  }
  struct stat info {};
  if (::fstat(descriptor_, &info) != 0) info.st_mode = S_IFREG;  // reading will say what is wrong
  const bool unfit = S_ISDIR(info.st_mode) || (kind == ErrorKind::model && !S_ISREG(info.st_mode));
  if (unfit) {
    ::close(descriptor_);
    fail(kind, code,
         message(path_, S_ISDIR(info.st_mode) ? ": is a directory, expected a file" : ": is no regular file"));
  }
}

InputFile::~InputFile() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

std::string InputFile::real_path() const {
  std::string target(4096, '\0');
  const std::string link = message("/proc/self/fd/", descriptor_);
  const ssize_t length = ::readlink(link.c_str(), target.data(), target.size());
  if (length < 0) fail_read(path_, errno);
  target.resize(static_cast<size_t>(length));
  return target;
}

uint64_t InputFile::size() const {
  struct stat info {};
  if (::fstat(descriptor_, &info) != 0) fail_read(path_, errno);
  return static_cast<uint64_t>(info.st_size);
}

size_t InputFile::read_at(uint64_t offset, std::span<std::byte> target) const {
  size_t done = 0;
  while (done < target.size()) {
    const ssize_t got =
        ::pread(descriptor_, target.data() + done, target.size() - done, static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail_read(path_, errno);
    if (got == 0) break;
    done += static_cast<size_t>(got);
  }
  return done;
}

size_t InputFile::read_next(std::span<std::byte> target) {
  while (true) {
    const ssize_t got = ::read(descriptor_, target.data(), target.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) fail_read(path_, errno);
    return static_cast<size_t>(got);
  }
}

OutputFile::OutputFile(std::string path)
    : path_(std::move(path)), temporary_(message(path_, ".tmp.", ::getpid())), file_(temporary_) {}

OutputFile::~OutputFile() {
  if (!committed_) ::unlink(temporary_.c_str());
}

void OutputFile::commit() {
  file_.close();
  if (std::rename(temporary_.c_str(), path_.c_str()) != 0) fail_write(path_, errno);
  committed_ = true;
  sync_directory(parent_directory(path_));
}

std::string read_file(const std::string& path, ErrorKind kind, const std::string& code, uint64_t max_bytes) {
  InputFile file(path, kind, code);
  std::string text;
  std::vector<std::byte> buffer(size_t{1} << 16);
  while (const size_t got = file.read_next(buffer)) {
    if (text.size() + got > max_bytes) {
      fail(kind, code, message(path, ": more than the ", max_bytes, " bytes that such a file may have"));
    }
    text.append(reinterpret_cast<const char*>(buffer.data()), got);
  }
  return text;
}

std::vector<std::string_view> split_lines(std::string_view text) {
  std::vector<std::string_view> lines;
  while (!text.empty()) {
    const size_t feed = text.find('\n');
    std::string_view line = text.substr(0, feed);
    text.remove_prefix(feed == std::string_view::npos ? text.size() : feed + 1);
    if (feed != std::string_view::npos && line.ends_with('\r')) line.remove_suffix(1);
    lines.push_back(line);
  }
  return lines;
}

std::string_view skip_bom(std::string_view text) {
  constexpr std::string_view bom = "\xEF\xBB\xBF";
  return text.starts_with(bom) ? text.substr(bom.size()) : text;
}

std::string quoted(std::string_view text) {
  constexpr char digits[] = "0123456789abcdef";
  std::string out = "\"";
  for (const char c : text.substr(0, 40)) {
    const unsigned char byte = static_cast<unsigned char>(c);
    if (c == '\r') {
      out += "\\r";
    } else if (byte < 0x20 || byte >= 0x7F) {
      out += {'\\', 'x', digits[byte >> 4], digits[byte & 15]};
    } else {
      out += c;
    }
  }
  return out += text.size() > 40 ? "…\"" : "\"";
}

std::string at_line(const std::string& path, size_t line) { return message(path, ":", line); }

}  // namespace mixtape::data
