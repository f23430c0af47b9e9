#include "tools/lines.h"

#include <array>
#include <span>

#include "tools/commands.h"

namespace mixtape::tools {
namespace {
constexpr size_t kChunk = size_t{1} << 16;
}  // namespace

LineReader::LineReader(const std::string& path)
    : name_(path == "-" ? "stdin" : path), file_(path == "-" ? "/dev/stdin" : path, ErrorKind::data, "E-DATA-FILE") {}

bool LineReader::would_read() const { return !ended_ && buffer_.find('\n', at_) == std::string::npos; }

bool LineReader::next(std::string& line) {
  std::array<std::byte, kChunk> chunk;
  searched_ = at_;
  size_t end;
  while ((end = buffer_.find('\n', searched_)) == std::string::npos && !ended_) {
    searched_ = buffer_.size();
    if (buffer_.size() - at_ > longest_line) break;
    const size_t got = file_.read_next(chunk);
    buffer_.append(reinterpret_cast<const char*>(chunk.data()), got);
    ended_ = got == 0;
  }
  if (end == std::string::npos && at_ == buffer_.size()) return false;
  ++line_;
  const size_t stop = std::min(end, buffer_.size());
  if (stop - at_ > longest_line) {
    fail(ErrorKind::data, "E-DATA-LINE",
         message(name_, ":", line_, ": more than the ", longest_line, " bytes that a line may have"));
  }
  line.assign(buffer_, at_, stop - at_);
  at_ = end == std::string::npos ? buffer_.size() : end + 1;
  if (at_ > kChunk) {
    buffer_.erase(0, at_);
    at_ = 0;
  }
  return true;
}

void LineWriter::add(const std::string& line) {
  pending_.append(line).push_back('\n');
  if (pending_.size() > kChunk || reader_.would_read()) finish();
}

void LineWriter::finish() {
  if (!pending_.empty()) print(pending_);
  pending_.clear();
}

}  // namespace mixtape::tools
