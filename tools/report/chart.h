// Charts that flow with the page: the drawing stretches to any width, its lines keep their weight, and titles, ticks
// and legend are text of the page, as large as all the other.
#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "tools/draw/axis.h"

namespace mixtape::report {

/// Styles 0 to 5 differ in colour, and their lines in dashes too.
class Chart {
 public:
  using Point = std::pair<double, double>;

  Chart(std::string title, draw::Axis x, draw::Axis y);

  /// A line from point to point; one that has no place interrupts it. `faint` is for what stands behind another.
  void line(const std::string& label, int style, const std::vector<Point>& points, bool faint = false);
  /// Holds each value until the next.
  void staircase(const std::string& label, int style, const std::vector<Point>& points);
  void dots(const std::string& label, int style, const std::vector<Point>& points);
  /// Short marks at the foot.
  void marks(const std::string& label, int style, const std::vector<double>& xs);
  /// A level across the whole width.
  void level(const std::string& label, int style, double y);

  /// `about` is what the picture shows, for who cannot see it.
  std::string html(const std::string& about) const;

 private:
  void path(const std::string& label, const std::string& classes, const std::string& d);
  std::string place(const Point& point) const;

  std::string title_;
  draw::Axis x_, y_;
  std::vector<std::pair<std::string, std::string>> legend_;  // label, classes of its sample
  std::string drawn_;
};

/// From 0 to the last step, with room for a dot at both ends.
draw::Axis step_axis(int64_t last_step);

/// Of a long curve what its picture needs: in each of `buckets` parts the first, the lowest, the highest and the last
/// point, in order, and one that is not finite, so that the gap is seen.
std::vector<Chart::Point> thinned(const std::vector<Chart::Point>& points, size_t buckets = 300);

/// Each y as the mean of the `window` points around it, what is not finite left out.
std::vector<Chart::Point> smoothed(const std::vector<Chart::Point>& points, size_t window);

}  // namespace mixtape::report
