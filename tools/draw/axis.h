// Axes: from data to places between 0 and 1, with numbers that people like to read.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace mixtape::draw {

enum class AxisKind { linear, log2, names };

struct Axis {
  std::string title;
  double low = 0, high = 1;  ///< in data; > 0 on a logarithmic axis
  AxisKind kind = AxisKind::linear;
  std::vector<std::string> names = {};  ///< of an axis of names: the i-th stands at i + 0.5, low and high are of no use

  static Axis of_names(std::string title, std::vector<std::string> names);
  /// From the smallest to the largest of the values, what is not finite left out, with a little room on a linear one.
  static Axis around(std::string title, const std::vector<double>& values, AxisKind kind = AxisKind::linear);
};

/// Where a value lies: 0 at the low end, 1 at the high one, outside of them beyond. NaN for what is not finite, or has
/// no logarithm where one is needed.
double share_of(const Axis& axis, double value);

struct Tick {
  double share;
  std::string text;
};
/// About `parts` round values (eight on a logarithmic axis), or one for each name.
std::vector<Tick> ticks(const Axis& axis, int parts = 6);

/// For XML and HTML, between tags and in quoted attributes: & < > " become entities, control characters blanks, bytes
/// that are not UTF-8 the replacement character.
std::string escaped(std::string_view text);

}  // namespace mixtape::draw
