// Reports: lines for the user that are no errors. Said once, to a sink that a program may replace.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>

namespace mixtape {

namespace detail {
struct Reports;
}

/// Takes one line without its newline. Called by one thread at a time; must not report anything itself.
using ReportSink = std::function<void(std::string_view line)>;

/// Hands `line` to the sink (by default stderr), unless the same line was handed to it before. After 1,000 different
/// lines one last line says that there are more, so that a value that changes each step cannot flood a log. Any thread.
void report_once(const std::string& line);

/// Sends the reports of all threads to `sink` while it lives, and forgets which lines were said. Nests.
class ReportGuard {
 public:
  explicit ReportGuard(ReportSink sink);
  ~ReportGuard();
  ReportGuard(const ReportGuard&) = delete;
  ReportGuard& operator=(const ReportGuard&) = delete;

 private:
  std::unique_ptr<detail::Reports> outer_;
};

}  // namespace mixtape
