#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>

#include "tools/teach/break.h"

namespace mixtape::teach {
namespace {

constexpr int64_t columns = 60, lines = 10;

/// Means of `columns` pieces; one with a place that is not finite is absent.
std::vector<std::optional<double>> pieces(const std::vector<double>& values) {
  std::vector<std::optional<double>> out;
  const int64_t n = std::ssize(values);
  for (int64_t i = 0; i < columns; ++i) {
    const int64_t begin = i * n / columns, end = std::max(begin + 1, (i + 1) * n / columns);
    double sum = 0;
    for (int64_t k = begin; k < end; ++k) sum += values[static_cast<size_t>(k)];
    if (std::isfinite(sum))
      out.emplace_back(sum / static_cast<double>(end - begin));
    else
      out.emplace_back();
  }
  return out;
}

}  // namespace

std::string two_curves(const std::vector<double>& x, const std::vector<double>& o) {
  const auto first = pieces(x), second = pieces(o);
  double top = 0;
  for (const auto* curve : {&first, &second})
    for (const std::optional<double>& value : *curve) top = std::max(top, value.value_or(0));
  if (top == 0) top = 1;
  std::vector<std::string> grid(lines + 1, std::string(columns, ' '));  // the first for what is not finite
  const auto mark = [&](const auto& curve, char sign) {
    for (size_t i = 0; i < curve.size(); ++i) {
      const double from_top = lines - 1 - curve[i].value_or(0) / top * (lines - 1);
      char& cell = curve[i] ? grid[static_cast<size_t>(1 + std::lround(from_top))][i] : grid[0][i];
      cell = !curve[i] ? '!' : cell == ' ' ? sign : '*';
    }
  };
  mark(first, 'x');
  mark(second, 'o');
  std::string out;
  for (int64_t i = 0; i <= lines; ++i) {
    std::string line = grid[static_cast<size_t>(i)];
    line.erase(line.find_last_not_of(' ') + 1);
    if (i == 0 && line.empty()) continue;  // all is finite
    const double value = top * static_cast<double>(lines - i) / (lines - 1);
    out += (i == 0 ? "   NaN |" : fmt::format("{:6.3f} |", value)) + line + "\n";
  }
  return out + fmt::format("{:>8}{:<{}}step {}\n", "1", "", columns - 8, x.size());
}

}  // namespace mixtape::teach
