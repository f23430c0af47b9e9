#include "tools/draw/svg.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

namespace mixtape::draw {
namespace {

constexpr double width = 760, plot_left = 92, plot_right = 740, plot_top = 44, plot_bottom = 344, legend_line = 20;
constexpr size_t styles = 6;

struct Palette {
  const char *paper, *ink, *grid;
  std::array<const char*, styles> series;  // each at least 3:1 against the paper
};
constexpr Palette light = {
    "#fff", "#1c1c1c", "#dcdcdc", {"#0b61a4", "#b3470c", "#1b7a46", "#8a3a9c", "#8a6d00", "#5b6470"}};
constexpr Palette dark = {
    "#17191d", "#ececec", "#3b3f46", {"#6cb4f5", "#f2955c", "#63c78e", "#d48be6", "#d9b93b", "#a9b2bd"}};
constexpr std::array<const char*, styles> dashes = {"none", "8 4", "3 3", "12 3 3 3", "16 6", "1 4"};

/// Plain rules instead of variables, which not every viewer knows.
std::string colours(const Palette& palette) {
  std::string out = fmt::format(
      ".chart .paper{{fill:{0}}}.chart text{{fill:{1}}}.chart .axis,.chart .rule{{stroke:{1}}}.chart "
      ".grid{{stroke:{2}}}\n",
      palette.paper, palette.ink, palette.grid);
  for (size_t i = 0; i < styles; ++i)
    out += fmt::format(".chart .l{0}{{stroke:{1}}}.chart .b{0}{{fill:{1}}}\n", i, palette.series[i]);
  return out;
}

std::string style_sheet() {
  std::string out =
      "<style>\n.chart{font-family:sans-serif;font-size:13px}.chart .title{font-size:15px;font-weight:bold}\n"
      ".chart .line,.chart .axis,.chart .rule,.chart .grid{fill:none}.chart "
      ".line{stroke-width:2.2;stroke-linecap:round}"
      ".chart .rule{stroke-dasharray:2 3}\n";
  for (size_t i = 0; i < styles; ++i) out += fmt::format(".chart .l{}{{stroke-dasharray:{}}}\n", i, dashes[i]);
  return out + colours(light) + "@media (prefers-color-scheme:dark){\n" + colours(dark) + "}\n</style>\n";
}

std::string text_at(double x, double y, const std::string& text, const char* anchor, const std::string& more = "") {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\"{}>{}</text>\n", x, y, anchor, more,
                     escaped(text));
}

}  // namespace

/// From data to places on the paper.
struct SvgChart::Frame {
  const Axis &x, &y;

  double right(double value) const { return plot_left + share_of(x, value) * (plot_right - plot_left); }
  double down(double value) const { return plot_bottom - share_of(y, value) * (plot_bottom - plot_top); }
  bool holds(const Point& p) const { return std::isfinite(right(p.first)) && std::isfinite(down(p.second)); }
};

SvgChart::SvgChart(std::string title, Axis x, Axis y) : title_(std::move(title)), x_(std::move(x)), y_(std::move(y)) {}

SvgChart::Frame SvgChart::frame() const { return {x_, y_}; }

size_t SvgChart::series(const std::string& label) {
  const auto known = std::find_if(series_.begin(), series_.end(), [&](const Series& s) { return s.label == label; });
  if (known != series_.end()) return static_cast<size_t>(known - series_.begin());
  series_.push_back({label});
  return series_.size() - 1;
}

void SvgChart::line(const std::string& label, const std::vector<Point>& points) {
  const Frame on = frame();
  const size_t index = series(label), style = index % styles;
  series_[index].is_line = true;
  std::string places;
  const auto end_piece = [&] {
    // A point without neighbours: a line of no length, which its round ends make a dot.
    if (!places.empty() && places.find(' ') == std::string::npos) places += " " + places;
    if (!places.empty()) drawn_ += fmt::format("<polyline class=\"line l{}\" points=\"{}\"/>\n", style, places);
    places.clear();
  };
  for (const Point& p : points) {
    if (on.holds(p))
      places += fmt::format("{}{:.1f},{:.1f}", places.empty() ? "" : " ", on.right(p.first), on.down(p.second));
    else
      end_piece();
  }
  end_piece();
}

void SvgChart::box(const std::string& label, Point from, Point to) {
  const Frame on = frame();
  const size_t style = series(label) % styles;
  if (!on.holds(from) || !on.holds(to)) return;
  const auto [left, right] = std::minmax({on.right(from.first), on.right(to.first)});
  const auto [top, bottom] = std::minmax({on.down(from.second), on.down(to.second)});
  drawn_ += fmt::format("<rect class=\"b{}\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"{:.1f}\" height=\"{:.1f}\"/>\n", style,
                        left, top, right - left, bottom - top);
}

void SvgChart::rule(double x, const std::string& text) {
  const Frame on = frame();
  if (!std::isfinite(on.right(x))) return;
  drawn_ += fmt::format("<path class=\"rule\" d=\"M{0:.1f} {1:.1f}V{2:.1f}\"/>\n", on.right(x), plot_top, plot_bottom);
  drawn_ += text_at(on.right(x), plot_top + 14, text, "middle");
}

std::string SvgChart::axes() const {
  std::string out;
  for (const Tick& tick : ticks(x_)) {
    const double x = plot_left + tick.share * (plot_right - plot_left);
    out += fmt::format("<path class=\"grid\" d=\"M{:.1f} {:.1f}V{:.1f}\"/>\n", x, plot_top, plot_bottom);
    out += text_at(x, plot_bottom + 18, tick.text, "middle");
  }
  for (const Tick& tick : ticks(y_)) {
    const double y = plot_bottom - tick.share * (plot_bottom - plot_top);
    if (y_.kind != AxisKind::names)
      out += fmt::format("<path class=\"grid\" d=\"M{:.1f} {:.1f}H{:.1f}\"/>\n", plot_left, y, plot_right);
    out += text_at(plot_left - 8, y + 4, tick.text, "end");
  }
  out += fmt::format("<path class=\"axis\" d=\"M{0:.1f} {1:.1f}V{2:.1f}H{3:.1f}\"/>\n", plot_left, plot_top,
                     plot_bottom, plot_right);
  out += text_at((plot_left + plot_right) / 2, plot_bottom + 40, x_.title, "middle");
  if (y_.title.empty()) return out;
  const double middle = (plot_top + plot_bottom) / 2;
  return out + text_at(16, middle, y_.title, "middle", fmt::format(" transform=\"rotate(-90 16 {:.1f})\"", middle));
}

std::string SvgChart::legend() const {
  std::string out;
  double y = plot_bottom + 66;
  for (size_t i = 0; i < series_.size(); ++i, y += legend_line) {
    if (series_[i].is_line)
      out += fmt::format("<path class=\"line l{}\" d=\"M{:.1f} {:.1f}h36\"/>\n", i % styles, plot_left, y - 4);
    else
      out += fmt::format("<rect class=\"b{}\" x=\"{:.1f}\" y=\"{:.1f}\" width=\"36\" height=\"12\"/>\n", i % styles,
                         plot_left, y - 11);
    out += text_at(plot_left + 46, y, series_[i].label, "start");
  }
  return out;
}

std::string SvgChart::text() const {
  const double height = plot_bottom + 60 + legend_line * static_cast<double>(series_.size());
  std::string out = fmt::format(
      "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"chart\" viewBox=\"0 0 {0:.0f} {1:.0f}\" width=\"{0:.0f}\" "
      "height=\"{1:.0f}\" role=\"img\">\n<title>{2}</title>\n",
      width, height, escaped(title_));
  out += style_sheet();
  out += fmt::format("<rect class=\"paper\" width=\"{:.0f}\" height=\"{:.0f}\"/>\n", width, height);
  out += text_at(plot_left, 26, title_, "start", " class=\"title\"") + axes();
  // An inner svg cuts what lies outside of it, and needs no id that could come twice in a page.
  out += fmt::format(
      "<svg x=\"{0:.0f}\" y=\"{1:.0f}\" width=\"{2:.0f}\" height=\"{3:.0f}\" viewBox=\"{0:.0f} {1:.0f} "
      "{2:.0f} {3:.0f}\">\n",
      plot_left, plot_top, plot_right - plot_left, plot_bottom - plot_top);
  return out + drawn_ + "</svg>\n" + legend() + "</svg>\n";
}

}  // namespace mixtape::draw
