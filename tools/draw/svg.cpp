#include "tools/draw/svg.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>

#include "tools/config/json_text.h"

namespace mixtape::draw {
namespace {

constexpr double width = 760, plot_left = 92, plot_right = 740, plot_top = 44, plot_bottom = 344, legend_line = 20;
constexpr double edge = 4, letters = 13, title_letters = 15, rule_line = 17;
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

/// How wide the characters from ' ' to '~' are in DejaVu Sans, in hundredths of their size. Arial, Helvetica and their
/// like, which viewers take as often, are narrower.
constexpr unsigned char advances[] = {32, 40, 46, 84, 64, 95, 78, 28, 39, 39, 50, 84, 32, 36,  32, 34, 64, 64, 64,
                                      64, 64, 64, 64, 64, 64, 64, 34, 34, 84, 84, 84, 53, 100, 68, 69, 70, 77, 63,
                                      58, 78, 75, 30, 30, 66, 56, 86, 75, 79, 60, 79, 70, 64,  61, 73, 68, 99, 69,
                                      61, 69, 39, 34, 39, 84, 50, 50, 61, 64, 55, 64, 62, 35,  64, 63, 28, 28, 58,
                                      28, 97, 63, 61, 64, 64, 41, 52, 39, 63, 59, 82, 59, 59,  53, 64, 34, 64, 84};

/// Plain rules instead of variables, which not every viewer knows.
std::string colours(const Palette& palette) {
  std::string out = fmt::format(
      ".chart .paper{{fill:{0}}}.chart text{{fill:{1}}}.chart .label{{stroke:{0}}}.chart .axis,.chart "
      ".rule{{stroke:{1}}}.chart "
      ".grid{{stroke:{2}}}\n",
      palette.paper, palette.ink, palette.grid);
  for (size_t i = 0; i < styles; ++i)
    out += fmt::format(".chart .l{0}{{stroke:{1}}}.chart .b{0}{{fill:{1}}}\n", i, palette.series[i]);
  return out;
}

std::string style_sheet() {
  std::string out =
      "<style>\n.chart{font-family:sans-serif;font-size:13px}.chart .title{font-size:15px;font-weight:bold}\n"
      ".chart .label{stroke-width:4px;stroke-linejoin:round;paint-order:stroke}\n"
      ".chart .line,.chart .axis,.chart .rule,.chart .grid{fill:none}.chart "
      ".line{stroke-width:2.2;stroke-linecap:round}"
      ".chart .rule{stroke-dasharray:2 3}\n";
  for (size_t i = 0; i < styles; ++i) out += fmt::format(".chart .l{}{{stroke-dasharray:{}}}\n", i, dashes[i]);
  return out + colours(light) + "@media (prefers-color-scheme:dark){\n" + colours(dark) + "}\n</style>\n";
}

/// Where the middle of a text of that width has to stand so that it is whole between two places.
double inside(double middle, double wide, double low, double high) {
  return std::clamp(middle, low + wide / 2, std::max(low + wide / 2, high - wide / 2));
}

std::string text_at(double x, double y, const std::string& text, const char* anchor, const std::string& more = "") {
  return fmt::format("<text x=\"{:.1f}\" y=\"{:.1f}\" text-anchor=\"{}\"{}>{}</text>\n", x, y, anchor, more,
                     escaped(text));
}

}  // namespace

double text_width(std::string_view text, double size) {
  double hundredths = 0;
  for (size_t i = 0; i < text.size(); i += std::max<size_t>(config::utf8_length(text.substr(i)), 1)) {
    const auto place = static_cast<size_t>(static_cast<unsigned char>(text[i]) - ' ');
    hundredths += place < std::size(advances) ? advances[place] : 100;
  }
  return hundredths / 100 * size;
}

std::string fitted(const std::string& text, double room, double size) {
  if (text_width(text, size) <= room) return text;
  std::vector<std::string> letters_of;
  for (size_t i = 0; i < text.size();) {
    const size_t length = std::max<size_t>(config::utf8_length(std::string_view(text).substr(i)), 1);
    letters_of.push_back(text.substr(i, length));
    i += length;
  }
  for (size_t kept = letters_of.size(); kept > 0; --kept) {
    std::string out;
    for (size_t i = 0; i < kept / 2; ++i) out += letters_of[i];
    out += "…";
    for (size_t i = letters_of.size() - (kept - kept / 2); i < letters_of.size(); ++i) out += letters_of[i];
    if (text_width(out, size) <= room) return out;
  }
  return "…";
}

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
  const double at = frame().right(x);
  if (!(at >= plot_left && at <= plot_right)) return;
  const std::pair<double, std::string> wanted(at, text);
  if (std::find(rules_.begin(), rules_.end(), wanted) != rules_.end()) return;
  drawn_ += fmt::format("<path class=\"rule\" d=\"M{0:.1f} {1:.1f}V{2:.1f}\"/>\n", at, plot_top, plot_bottom);
  rules_.push_back(wanted);
}

/// From left to right, each in the highest line that has room for it.
std::string SvgChart::rule_texts() const {
  std::vector<std::pair<double, std::string>> sorted = rules_;
  std::stable_sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<double> ends;  // of each line, so far
  std::string out;
  for (const auto& [at, text] : sorted) {
    if (text.empty()) continue;
    const double wide = text_width(text, letters), middle = inside(at, wide, plot_left + 1, plot_right);
    size_t line = 0;
    while (line < ends.size() && ends[line] > middle - wide / 2) ++line;
    if (line == ends.size()) ends.push_back(0);
    ends[line] = middle + wide / 2 + edge;
    out += text_at(middle, plot_top + 14 + rule_line * static_cast<double>(line), text, "middle", " class=\"label\"");
  }
  return out;
}

std::string SvgChart::axes() const {
  std::string out;
  for (const Tick& tick : ticks(x_)) {
    const double x = plot_left + tick.share * (plot_right - plot_left);
    out += fmt::format("<path class=\"grid\" d=\"M{:.1f} {:.1f}V{:.1f}\"/>\n", x, plot_top, plot_bottom);
    out +=
        text_at(inside(x, text_width(tick.text, letters), edge, width - edge), plot_bottom + 18, tick.text, "middle");
  }
  for (const Tick& tick : ticks(y_)) {
    const double y = plot_bottom - tick.share * (plot_bottom - plot_top);
    if (y_.kind != AxisKind::names)
      out += fmt::format("<path class=\"grid\" d=\"M{:.1f} {:.1f}H{:.1f}\"/>\n", plot_left, y, plot_right);
    out += text_at(plot_left - 8, y + 4, fitted(tick.text, plot_left - 8 - (y_.title.empty() ? edge : 26), letters),
                   "end");
  }
  out += fmt::format("<path class=\"axis\" d=\"M{0:.1f} {1:.1f}V{2:.1f}H{3:.1f}\"/>\n", plot_left, plot_top,
                     plot_bottom, plot_right);
  const double room = plot_right - plot_left;
  out += text_at((plot_left + plot_right) / 2, plot_bottom + 40, fitted(x_.title, room, letters), "middle");
  if (y_.title.empty()) return out;
  const double middle = (plot_top + plot_bottom) / 2;
  return out + text_at(16, middle, fitted(y_.title, plot_bottom - plot_top, letters), "middle",
                       fmt::format(" transform=\"rotate(-90 16 {:.1f})\"", middle));
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
    const double room = width - edge - plot_left - 46;
    out += text_at(plot_left + 46, y, fitted(series_[i].label, room, letters), "start");
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
  const double bold = 1.15 * title_letters;
  out += text_at(plot_left, 26, fitted(title_, width - edge - plot_left, bold), "start", " class=\"title\"") + axes();
  // An inner svg cuts what lies outside of it, and needs no id that could come twice in a page.
  out += fmt::format(
      "<svg x=\"{0:.0f}\" y=\"{1:.0f}\" width=\"{2:.0f}\" height=\"{3:.0f}\" viewBox=\"{0:.0f} {1:.0f} "
      "{2:.0f} {3:.0f}\">\n",
      plot_left, plot_top, plot_right - plot_left, plot_bottom - plot_top);
  return out + drawn_ + "</svg>\n" + rule_texts() + legend() + "</svg>\n";
}

}  // namespace mixtape::draw
