// The texts of a picture and where they stand, read from the SVG itself: all of them on the paper, none upon another.
#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "core/error.h"
#include "tools/draw/svg.h"

namespace mixtape::tests {

struct SvgText {
  double left = 0, right = 0, top = 0, bottom = 0;
  std::string text;
};

inline double svg_number(const std::string& tag, const std::string& name) {
  const size_t at = tag.find(" " + name + "=\"");
  return at == std::string::npos ? 0 : std::stod(tag.substr(at + name.size() + 3));
}

/// Letters as wide as the table of the drawing code says, bold ones by 1.15; tests/report_in_browser.py measures real
/// ones.
inline std::vector<SvgText> svg_texts(const std::string& svg) {
  std::vector<SvgText> out;
  for (size_t at = 0; (at = svg.find("<text ", at)) != std::string::npos; ++at) {
    const size_t close = svg.find('>', at), end = svg.find("</text>", close);
    const std::string tag = svg.substr(at, close - at);
    SvgText box{.text = svg.substr(close + 1, end - close - 1)};
    const bool title = tag.find("class=\"title\"") != std::string::npos;
    std::string letters;  // an entity is one
    for (size_t k = 0; k < box.text.size(); ++k) {
      letters += box.text[k];
      if (box.text[k] == '&') k = box.text.find(';', k);
    }
    const double size = title ? 15 : 13, wide = draw::text_width(letters, size) * (title ? 1.15 : 1);
    const double x = svg_number(tag, "x"), y = svg_number(tag, "y");
    const bool middle = tag.find("\"middle\"") != std::string::npos, last = tag.find("\"end\"") != std::string::npos;
    box.left = x - (middle ? wide / 2 : last ? wide : 0), box.right = box.left + wide;
    box.top = y - 0.75 * size, box.bottom = y + 0.2 * size;
    if (tag.find("rotate(-90") != std::string::npos)
      box = {.left = x - 0.75 * size,
             .right = x + 0.2 * size,
             .top = y - wide / 2,
             .bottom = y + wide / 2,
             .text = box.text};
    out.push_back(box);
  }
  return out;
}

/// "" or the first fault of the labels of a picture.
inline std::string svg_label_fault(const std::string& svg) {
  const size_t view = svg.find("viewBox=\"0 0 ");
  if (view == std::string::npos) return "no view box";
  size_t read = 0;
  const double width = std::stod(svg.substr(view + 13), &read), height = std::stod(svg.substr(view + 13 + read));
  if (svg.find("2^-0<") != std::string::npos) return "2^-0";
  const std::vector<SvgText> texts = svg_texts(svg);
  if (texts.empty()) return "no text";
  for (size_t i = 0; i < texts.size(); ++i) {
    const SvgText& a = texts[i];
    if (a.left < 0 || a.right > width || a.top < 0 || a.bottom > height)
      return message("cut at the edge: ", a.text, " from ", a.left, " to ", a.right);
    for (size_t j = 0; j < i; ++j) {
      const SvgText& b = texts[j];
      if (a.left < b.right && b.left < a.right && a.top < b.bottom && b.top < a.bottom)
        return message(b.text, " and ", a.text, " lie on each other");
    }
  }
  // The inner svg cuts what stands in it: no text may.
  const size_t inner = svg.find("<svg ", view), after = svg.find("</svg>", inner);
  const size_t cut = svg.find("<text ", inner);
  return cut < after ? "a text inside the plot that cuts" : "";
}

}  // namespace mixtape::tests
