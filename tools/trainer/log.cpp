#include "tools/trainer/log.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <span>
#include <vector>

#include "core/error.h"
#include "data/durable.h"
#include "data/file.h"

namespace mixtape::trainer {
namespace {

/// The text of a member that our own lines hold, up to the comma or brace after it; "" without one.
std::string_view member(std::string_view line, std::string_view key) {
  const size_t at = line.find(key);
  if (at == std::string_view::npos) return {};
  line.remove_prefix(at + key.size());
  return line.substr(0, line.find_first_of(",}"));
}

template <class Number>
Number number(std::string_view text) {
  Number value{};
  std::from_chars(text.data(), text.data() + text.size(), value);
  return value;
}

/// Whether a line belongs to a run that stands at `step`.
bool belongs(std::string_view line, int64_t step, int64_t evaluated_at) {
  if (!line.starts_with("{\"event\":\"") || !line.ends_with('}')) return false;
  const std::string_view event = member(line, "{\"event\":");
  if (event == "\"end\"" || event == "\"diverged\"") return false;
  const std::string_view at = member(line, "\"step\":");
  if (at.empty()) return true;
  if (event != "\"eval\"") return number<int64_t>(at) <= step;
  return number<int64_t>(at) <= evaluated_at && member(line, "\"split\":") == "\"val\"";
}

}  // namespace

RunLog::RunLog(std::string path) : path_(std::move(path)) {
  descriptor_ = data::open_again(path_, O_WRONLY | O_CREAT | O_APPEND);
  if (descriptor_ < 0) data::fail_write(path_, errno);
}

RunLog::~RunLog() {
  if (descriptor_ >= 0) ::close(descriptor_);
}

void RunLog::write(const Json& event) {
  waiting_ += event.line() + "\n";
  flush();
}

void RunLog::flush() {
  while (!waiting_.empty()) {
    const ssize_t wrote = ::write(descriptor_, waiting_.data(), waiting_.size());
    if (wrote < 0 && errno == EINTR) continue;
    if (wrote < 0 && data::is_disk_full(errno)) return;
    if (wrote <= 0) data::fail_write(path_, wrote < 0 ? errno : EIO);
    waiting_.erase(0, static_cast<size_t>(wrote));
  }
}

void RunLog::sync() {
  flush();
  if (!waiting_.empty()) data::fail_write(path_, ENOSPC);
  data::sync_descriptor(descriptor_, path_);
}

LogEnd end_of_log(const std::string& path, int64_t step, int64_t evaluated_at) {
  LogEnd end;
  if (::access(path.c_str(), F_OK) != 0) return end;
  data::InputFile file(path, ErrorKind::io, "E-IO-READ");
  std::vector<std::byte> buffer(size_t{1} << 16);
  std::string text;  // what has not been looked at yet
  while (const size_t got = file.read_next(buffer)) {
    text.append(reinterpret_cast<const char*>(buffer.data()), got);
    size_t start = 0;
    for (size_t feed = 0; (feed = text.find('\n', start)) != std::string::npos; start = feed + 1) {
      const std::string_view line = std::string_view(text).substr(start, feed - start);
      if (!belongs(line, step, evaluated_at)) return end;
      end.bytes += std::ssize(line) + 1;
      if (member(line, "\"event\":") == "\"checkpoint\"") end.seconds = number<double>(member(line, "\"seconds\":"));
    }
    text.erase(0, start);
  }
  return end;
}

void cut_log(const std::string& path, const LogEnd& end) {
  data::truncate_durably(path, static_cast<uint64_t>(end.bytes));
}

}  // namespace mixtape::trainer
