#include "tools/trainer/log.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "core/error.h"

namespace mixtape::trainer {
namespace {

[[noreturn]] void fail_write(const std::string& path) {
  const int error = errno;
  const bool full = error == ENOSPC || error == EDQUOT || error == EFBIG;
  fail(ErrorKind::io, full ? "E-IO-NOSPACE" : "E-IO-WRITE",
       message(path, ": cannot be written: ", std::strerror(error)));
}

}  // namespace

RunLog::RunLog(std::string path) : path_(std::move(path)) {
  do {
    descriptor_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
  } while (descriptor_ < 0 && errno == EINTR);
  if (descriptor_ < 0) fail_write(path_);
}

RunLog::~RunLog() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void RunLog::write(const Json& event) {
  const std::string text = event.line() + "\n";
  for (size_t done = 0; done < text.size();) {
    const ssize_t wrote = ::write(descriptor_, text.data() + done, text.size() - done);
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0) fail_write(path_);
    done += static_cast<size_t>(wrote);
  }
}

}  // namespace mixtape::trainer
