#include "tools/report/markup.h"

#include <fmt/format.h>

#include <cmath>

#include "tools/draw/axis.h"

namespace mixtape::report {

using draw::escaped;

std::string figure(double value) { return std::isfinite(value) ? fmt::format("{:.4g}", value) : "not finite"; }

std::string grouped(int64_t count) {
  std::string digits = std::to_string(count < 0 ? -count : count);
  for (size_t i = digits.size(); i > 3; i -= 3) digits.insert(i - 3, ",");
  return (count < 0 ? "-" : "") + digits;
}

std::string grouped(double count) {
  return std::abs(count) < 0x1p53 ? grouped(static_cast<int64_t>(std::llround(count))) : "unknown";
}

std::string in_bytes(double bytes) {
  if (!std::isfinite(bytes)) return "unknown";
  if (bytes < 0x1p10) return fmt::format("{:.0f} bytes", bytes);
  const char* const units[] = {"KiB", "MiB", "GiB", "TiB"};
  size_t unit = 0;
  for (bytes /= 0x1p10; bytes >= 1000 && unit < 3; ++unit) bytes /= 0x1p10;
  return fmt::format("{:.{}f} {}", bytes, bytes < 100 ? 1 : 0, units[unit]);
}

std::string duration(double seconds) {
  if (!std::isfinite(seconds)) return "unknown";
  if (seconds < 10) return fmt::format("{:.2f} s", seconds);
  if (seconds < 59.95) return fmt::format("{:.1f} s", seconds);
  const auto whole = static_cast<int64_t>(std::llround(seconds));
  if (whole < 3600) return fmt::format("{} min {:02} s", whole / 60, whole % 60);
  return fmt::format("{} h {:02} min", whole / 3600, whole / 60 % 60);
}

std::string percent(double share) {
  if (!std::isfinite(share)) return "unknown";
  if (share == 0) return "0 %";
  return share > 0 && share < 0.0005 ? "below 0.1 %" : fmt::format("{:.1f} %", 100 * share);
}

std::string plural(int64_t count, std::string_view what) {
  return fmt::format("{} {}{}", grouped(count), what, count == 1 ? "" : "s");
}

std::string scale_text(double scale) {
  return scale == std::floor(scale) && std::abs(scale) < 1e15 ? grouped(scale) : figure(scale);
}

std::string power_html(double value) {
  int exponent = 0;
  const bool power = std::isfinite(value) && value > 0 && std::frexp(value, &exponent) == 0.5;
  return power ? fmt::format("2<sup>{}</sup>", exponent - 1) : figure(value);
}

std::string code_html(std::string_view text) { return "<code>" + escaped(text) + "</code>"; }

std::string paragraph(std::string_view text) { return "<p>" + escaped(text) + "</p>\n"; }

std::string warning_html(std::string_view text) { return "<p class=\"warning\">" + escaped(text) + "</p>\n"; }

std::string section(std::string_view id, std::string_view title, std::string_view body_html) {
  return fmt::format(
      "<section id=\"{0}\" aria-labelledby=\"{0}-title\">\n<h2 id=\"{0}-title\">{1}</h2>\n{2}</section>\n", escaped(id),
      escaped(title), body_html);
}

std::string subsection(std::string_view title, std::string_view body_html) {
  return fmt::format("<h3>{}</h3>\n{}", escaped(title), body_html);
}

std::string folded(std::string_view summary, std::string_view body_html) {
  return fmt::format("<details>\n<summary>{}</summary>\n{}</details>\n", escaped(summary), body_html);
}

Table::Table(std::string caption, std::vector<Column> columns)
    : caption_(std::move(caption)), columns_(std::move(columns)) {}

void Table::row(const std::vector<std::string>& cells_html) {
  rows_ += "<tr>";
  for (size_t i = 0; i < columns_.size(); ++i) {
    const char* const tag = i == 0 ? "th" : "td";
    rows_ += fmt::format("<{}{}{}>{}</{}>", tag, i == 0 ? " scope=\"row\"" : "",
                         columns_[i].numeric ? " class=\"number\"" : "", cells_html.at(i), tag);
  }
  rows_ += "</tr>\n";
}

std::string Table::html() const {
  std::string head;
  for (const Column& column : columns_) {
    head +=
        fmt::format("<th scope=\"col\"{}>{}</th>", column.numeric ? " class=\"number\"" : "", escaped(column.title));
  }
  return fmt::format(
      "<div class=\"wide\" role=\"region\" aria-label=\"{0}\" tabindex=\"0\">\n<table>\n<caption>{0}</caption>\n"
      "<thead><tr>{1}</tr></thead>\n<tbody>\n{2}</tbody>\n</table>\n</div>\n",
      escaped(caption_), head, rows_);
}

}  // namespace mixtape::report
