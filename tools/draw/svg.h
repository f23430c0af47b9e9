// Pictures: a small chart as SVG text, by itself or inside a page, readable on light and on dark paper.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tools/draw/axis.h"

namespace mixtape::draw {

/// At most this many pixels wide is `text` in the sans-serif faces that viewers take, in letters of `size` pixels.
double text_width(std::string_view text, double size);
/// `text`, its middle taken out ("runs/a…long/name") where it is wider than `room`.
std::string fitted(const std::string& text, double room, double size);

/// Lines, boxes and rules in data coordinates over two axes. Things of one label share a colour and a line of the
/// legend; lines differ in their dashes too, for eyes and printers without colours. What lies outside the axes is cut.
class SvgChart {
 public:
  using Point = std::pair<double, double>;

  SvgChart(std::string title, Axis x, Axis y);

  /// A point that is not finite, or has no logarithm where one is needed, interrupts the line.
  void line(const std::string& label, const std::vector<Point>& points);
  /// A bar of a histogram, a range: the rectangle between two corners.
  void box(const std::string& label, Point from, Point to);
  /// A line across the whole chart at x, with its text at the top, where no other rule's text stands. Of rules that
  /// share place and text there is one.
  void rule(double x, const std::string& text);

  /// The whole file, ending in a newline.
  std::string text() const;

 private:
  struct Frame;
  Frame frame() const;
  size_t series(const std::string& label);  ///< its index, a new one for a new label
  std::string axes() const;
  std::string rule_texts() const;
  std::string legend() const;

  std::string title_;
  Axis x_, y_;
  struct Series {
    std::string label;
    bool is_line = false;
  };
  std::vector<Series> series_;
  std::string drawn_;                                  ///< the elements so far
  std::vector<std::pair<double, std::string>> rules_;  ///< places on the paper, texts
};

}  // namespace mixtape::draw
