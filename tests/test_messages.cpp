#include "core/messages.h"

#include <doctest/doctest.h>

#include <string>
#include <thread>
#include <vector>

using namespace mixtape;

namespace {
using Lines = std::vector<std::string>;
ReportSink into(Lines& lines) {
  return [&lines](std::string_view line) { lines.emplace_back(line); };
}
}  // namespace

TEST_CASE("messages: a line is said once, and again to a new sink") {
  Lines outer, inner;
  const ReportGuard first(into(outer));
  report_once("a");
  report_once("b");
  report_once("a");
  {
    const ReportGuard second(into(inner));
    report_once("a");
  }
  report_once("a");
  report_once("c");
  CHECK(outer == Lines{"a", "b", "c"});
  CHECK(inner == Lines{"a"});
}

TEST_CASE("messages: a flood ends after 1,000 lines, with a line that says so") {
  Lines lines;
  const ReportGuard guard(into(lines));
  for (int i = 0; i < 5000; ++i) report_once("value " + std::to_string(i));
  REQUIRE(lines.size() == 1001);
  CHECK(lines[999] == "value 999");
  CHECK(lines[1000] == "more than 1000 different reports: no more of them");
}

TEST_CASE("messages: threads do not say a line twice") {
  Lines lines;
  const ReportGuard guard(into(lines));
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([] {
      for (int i = 0; i < 200; ++i) report_once("line " + std::to_string(i));
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(lines.size() == 200);
}
