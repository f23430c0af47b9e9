#include "tools/report/chart.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

namespace mixtape::report {
namespace {

constexpr double width = 1000, height = 400;  // of the drawing's own units

bool has_place(const draw::Axis& x, const draw::Axis& y, const Chart::Point& point) {
  return std::isfinite(draw::share_of(x, point.first)) && std::isfinite(draw::share_of(y, point.second));
}

/// "2^16" with a raised exponent.
std::string tick_html(const std::string& text) {
  return text.starts_with("2^") ? "2<sup>" + text.substr(2) + "</sup>" : draw::escaped(text);
}

/// Not more ticks than whole numbers: there is no step 1.5.
int parts_of(const draw::Axis& axis) { return std::clamp(static_cast<int>(axis.high - axis.low), 1, 5); }

}  // namespace

Chart::Chart(std::string title, draw::Axis x, draw::Axis y)
    : title_(std::move(title)), x_(std::move(x)), y_(std::move(y)) {}

std::string Chart::place(const Point& point) const {
  return fmt::format("{:.1f} {:.1f}", width * draw::share_of(x_, point.first),
                     height * (1 - draw::share_of(y_, point.second)));
}

void Chart::path(const std::string& label, const std::string& classes, const std::string& d) {
  if (!d.empty()) drawn_ += fmt::format("<path class=\"{}\" d=\"{}\"/>\n", classes, d);
  if (!label.empty()) legend_.emplace_back(label, classes);
}

void Chart::line(const std::string& label, int style, const std::vector<Point>& points, bool faint) {
  std::string d;
  bool pen_is_down = false;
  for (const Point& point : points) {
    const bool holds = has_place(x_, y_, point);
    if (holds) d += (pen_is_down ? "L" : "M") + place(point);
    pen_is_down = holds;
  }
  path(label, fmt::format("line s{}{}", style, faint ? " faint" : ""), d);
}

void Chart::staircase(const std::string& label, int style, const std::vector<Point>& points) {
  std::vector<Point> corners;
  for (const Point& point : points) {
    if (!has_place(x_, y_, point)) continue;
    if (!corners.empty() && corners.back().second != point.second)
      corners.emplace_back(point.first, corners.back().second);
    // Of a level its two ends are enough.
    if (corners.size() >= 2 && corners[corners.size() - 2].second == point.second &&
        corners.back().second == point.second)
      corners.back() = point;
    else
      corners.push_back(point);
  }
  line(label, style, corners);
}

void Chart::dots(const std::string& label, int style, const std::vector<Point>& points) {
  std::string d;
  for (const Point& point : points)
    if (has_place(x_, y_, point)) d += "M" + place(point) + "h.01";
  path(label, fmt::format("dot s{}", style), d);
}

void Chart::marks(const std::string& label, int style, const std::vector<double>& xs) {
  std::string d;
  for (const double x : xs) d += fmt::format("M{:.1f} {:.0f}v-22", width * draw::share_of(x_, x), height);
  path(label, fmt::format("mark s{}", style), d);
}

void Chart::level(const std::string& label, int style, double y) {
  const double share = draw::share_of(y_, y);
  if (!(share >= 0 && share <= 1)) return;
  path(label, fmt::format("level s{}", style), fmt::format("M0 {:.1f}H{:.0f}", height * (1 - share), width));
}

std::string Chart::html(const std::string& about) const {
  std::string grid, rows, columns, samples;
  for (const draw::Tick& tick : draw::ticks(y_, 5)) {
    grid += fmt::format("M0 {:.1f}H{:.0f}", height * (1 - tick.share), width);
    rows += fmt::format("<span style=\"bottom:{:.2f}%\">{}</span>", 100 * tick.share, tick_html(tick.text));
  }
  for (const draw::Tick& tick : draw::ticks(x_, parts_of(x_)))
    columns += fmt::format("<span style=\"left:{:.2f}%\">{}</span>", 100 * tick.share, tick_html(tick.text));
  for (const auto& [label, classes] : legend_) {
    samples += fmt::format(
        "<li><svg class=\"sample\" viewBox=\"0 0 26 10\" aria-hidden=\"true\"><path class=\"{}\" "
        "d=\"{}\"/></svg>{}</li>",
        classes,
        classes.starts_with("dot")    ? "M13 5h.01"
        : classes.starts_with("mark") ? "M13 9v-8"
                                      : "M1 5H25",
        draw::escaped(label));
  }
  return fmt::format(
      "<figure class=\"chart\">\n<figcaption><strong>{}</strong><ul class=\"legend\">{}</ul></figcaption>\n"
      "<div class=\"plot\">\n<div class=\"rows\" aria-hidden=\"true\">{}</div>\n"
      "<svg viewBox=\"0 0 {:.0f} {:.0f}\" preserveAspectRatio=\"none\" role=\"img\" aria-label=\"{}\">\n"
      "<path class=\"grid\" d=\"{}\"/>\n{}</svg>\n<div class=\"columns\" aria-hidden=\"true\">{}</div>\n"
      "<div class=\"axis\" aria-hidden=\"true\">{}</div>\n</div>\n</figure>\n",
      draw::escaped(title_), samples, rows, width, height, draw::escaped(about), grid, drawn_, columns,
      draw::escaped(x_.title));
}

draw::Axis step_axis(int64_t last_step) {
  const auto last = static_cast<double>(std::max<int64_t>(last_step, 1));
  return {"step", -0.012 * last, 1.012 * last};
}

std::vector<Chart::Point> thinned(const std::vector<Chart::Point>& points, size_t buckets) {
  if (points.size() <= 4 * buckets) return points;
  std::vector<Chart::Point> out;
  for (size_t b = 0; b < buckets; ++b) {
    const size_t from = b * points.size() / buckets, to = (b + 1) * points.size() / buckets;
    std::vector<size_t> kept = {from, to - 1};
    size_t low = from, high = from, gap = from;
    for (size_t i = from; i < to; ++i) {
      if (!std::isfinite(points[i].second)) {
        gap = i;
        continue;
      }
      if (!(points[low].second <= points[i].second)) low = i;
      if (!(points[high].second >= points[i].second)) high = i;
    }
    kept.insert(kept.end(), {low, high, gap});
    std::sort(kept.begin(), kept.end());
    kept.erase(std::unique(kept.begin(), kept.end()), kept.end());
    for (const size_t i : kept) out.push_back(points[i]);
  }
  return out;
}

std::vector<Chart::Point> smoothed(const std::vector<Chart::Point>& points, size_t window) {
  std::vector<double> sums = {0};
  std::vector<size_t> counts = {0};
  for (const auto& [x, y] : points) {
    sums.push_back(sums.back() + (std::isfinite(y) ? y : 0));
    counts.push_back(counts.back() + (std::isfinite(y) ? 1 : 0));
  }
  std::vector<Chart::Point> out;
  const size_t half = window / 2;
  for (size_t i = 0; i < points.size(); ++i) {
    const size_t from = i > half ? i - half : 0, to = std::min(points.size(), i + half + 1);
    const size_t count = counts[to] - counts[from];
    out.emplace_back(points[i].first, count == 0 ? std::numeric_limits<double>::quiet_NaN()
                                                 : (sums[to] - sums[from]) / static_cast<double>(count));
  }
  return out;
}

}  // namespace mixtape::report
