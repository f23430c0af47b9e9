#include "core/messages.h"

#include <cstdio>
#include <mutex>
#include <unordered_set>
#include <utility>

namespace mixtape {
namespace {
void to_stderr(std::string_view line) { std::fprintf(stderr, "%.*s\n", static_cast<int>(line.size()), line.data()); }
}  // namespace

struct detail::Reports {
  ReportSink sink = to_stderr;
  std::unordered_set<std::string> said;
};

namespace {
using detail::Reports;

constexpr size_t most_lines = 1000;

std::mutex& lock() {
  static std::mutex mutex;
  return mutex;
}
// The one place outside Context that changes: reports come from every thread and belong to the process.
Reports& reports() {
  static Reports current;
  return current;
}

}  // namespace

void report_once(const std::string& line) {
  const std::lock_guard<std::mutex> hold(lock());
  Reports& now = reports();
  if (now.said.size() > most_lines || !now.said.insert(line).second) return;
  now.sink(now.said.size() <= most_lines ? std::string_view(line)
                                         : "more than 1000 different reports: no more of them");
}

ReportGuard::ReportGuard(ReportSink sink) : outer_(std::make_unique<Reports>()) {
  const std::lock_guard<std::mutex> hold(lock());
  *outer_ = std::exchange(reports(), Reports{std::move(sink), {}});
}

ReportGuard::~ReportGuard() {
  const std::lock_guard<std::mutex> hold(lock());
  reports() = std::move(*outer_);
}

}  // namespace mixtape
