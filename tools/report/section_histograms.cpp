// Where the numbers of a step lie between the limits of a 16-bit format, before and after scaling.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>

#include "tools/draw/axis.h"
#include "tools/report/markup.h"
#include "tools/report/sections.h"

namespace mixtape::report {
namespace {

struct Zone {
  const char *css, *name;
};
constexpr std::array<Zone, 4> zones = {{{"flush", "becomes 0"},
                                        {"subnormal", "subnormal: fewer digits"},
                                        {"normal", "normal"},
                                        {"overflow", "overflow: becomes inf"}}};

std::array<double, 4> in_order(const FormatShares& shares) {
  return {shares.flush, shares.subnormal, shares.normal, shares.overflow};
}

std::string legend() {
  std::string out = "<ul class=\"legend zones-legend\">";
  for (const Zone& zone : zones)
    out += fmt::format("<li><span class=\"swatch {}\"></span>{}</li>", zone.css, zone.name);
  return out + "<li><span class=\"swatch zero\"></span>0 by itself</li></ul>\n";
}

std::string shares_text(const FormatShares& shares) {
  return fmt::format("{} becomes 0, {} subnormal, {} normal, {} overflow", percent(shares.flush),
                     percent(shares.subnormal), percent(shares.normal), percent(shares.overflow));
}

/// One bar of the whole width, divided by shares.
std::string share_bar(const Distribution& group, const FormatShares& shares) {
  std::string out = fmt::format("<span class=\"shares\" role=\"img\" aria-label=\"{}\">", shares_text(shares));
  const std::array<double, 4> parts = in_order(shares);
  if (group.zero > 0) out += fmt::format("<span class=\"zero\" style=\"width:{:.2f}%\"></span>", 100 * group.zero);
  for (size_t i = 0; i < zones.size(); ++i)
    if (parts[i] > 0)
      out += fmt::format("<span class=\"{}\" style=\"width:{:.2f}%\"></span>", zones[i].css, 100 * parts[i]);
  return out + "</span>";
}

/// The ranges of the format below the axis, moved down by the scale.
std::string zone_strip(const Histograms& all, const Distribution& group, double scale) {
  const int shift = scale > 0 ? static_cast<int>(std::floor(std::log2(scale))) : 0;
  const int end = group.lowest + static_cast<int>(group.bins.size());
  const std::array<int, 3> limits = {all.flush_below - shift, all.subnormal_below - shift, all.overflow_from - shift};
  std::string out =
      fmt::format("<div class=\"rows\" aria-hidden=\"true\">×{}</div>\n<div class=\"strip\" aria-hidden=\"true\">",
                  scale == 1 ? "1" : power_html(scale));
  int from = group.lowest;
  for (size_t i = 0; i < zones.size(); ++i) {
    const int to = i < limits.size() ? std::clamp(limits[i], from, end) : end;
    if (to > from)
      out += fmt::format("<span class=\"{}\" style=\"width:{:.3f}%\"></span>", zones[i].css,
                         100.0 * (to - from) / (end - group.lowest));
    from = to;
  }
  return out + "</div>\n";
}

std::string bars(const Distribution& group, double highest) {
  std::string d;
  const double bar = 1000.0 / static_cast<double>(group.bins.size());
  for (size_t i = 0; i < group.bins.size(); ++i) {
    const double tall = highest > 0 ? 380 * group.bins[i] / highest : 0;
    if (tall > 0)
      d += fmt::format("M{:.1f} 400v-{:.1f}h{:.1f}v{:.1f}z", bar * (static_cast<double>(i) + 0.06), tall, bar * 0.88,
                       tall);
  }
  return d;
}

std::string name_of(const Distribution& group) { return group.place.empty() ? "whole model" : group.place; }

std::string exponents(const Distribution& group) {
  std::string out;
  const int bins = static_cast<int>(group.bins.size()), stride = bins > 60 ? 16 : bins > 24 ? 8 : bins > 10 ? 4 : 2;
  for (int e = group.lowest; e <= group.lowest + bins; ++e)
    if (e % stride == 0)
      out += fmt::format("<span style=\"left:{:.2f}%\">2<sup>{}</sup></span>", 100.0 * (e - group.lowest) / bins, e);
  return out;
}

std::string picture(const Histograms& all, const Distribution& group, bool scaled) {
  if (group.bins.empty()) return "";
  const double highest = *std::max_element(group.bins.begin(), group.bins.end());
  std::string about = fmt::format("{}: {} at scale 1", name_of(group), shares_text(group.before));
  if (scaled) about += fmt::format("; {} at scale {}", shares_text(group.after), scale_text(all.scale));
  return fmt::format(
      "<figure class=\"chart histogram\">\n<figcaption><strong>{}</strong><span class=\"aside\">{} numbers, {} of them "
      "0</span></figcaption>\n<div class=\"plot\">\n<div class=\"rows\" aria-hidden=\"true\"><span "
      "style=\"bottom:95%\">{}</span></div>\n<svg viewBox=\"0 0 1000 400\" preserveAspectRatio=\"none\" role=\"img\" "
      "aria-label=\"{}\">\n<path class=\"bar\" d=\"{}\"/>\n</svg>\n{}{}<div class=\"columns\" "
      "aria-hidden=\"true\">{}</div>\n</div>\n</figure>\n",
      draw::escaped(name_of(group)), grouped(group.count), percent(group.zero), percent(highest), draw::escaped(about),
      bars(group, highest), zone_strip(all, group, 1), scaled ? zone_strip(all, group, all.scale) : "",
      exponents(group));
}

std::string by_layer(const Kind& kind, double scale, bool scaled) {
  std::vector<Table::Column> columns = {{"place"}, {"at scale 1"}, {"becomes 0", true}, {"overflow", true}};
  if (scaled) {
    columns.push_back({fmt::format("at scale {}", scale_text(scale))});
    columns.insert(columns.end(), {{"becomes 0", true}, {"overflow", true}});
  }
  Table table("Underflow by layer: " + kind.name, columns);
  for (const Distribution& group : kind.places) {
    std::vector<std::string> cells = {group.place.empty() ? "whole model" : code_html(group.place),
                                      share_bar(group, group.before), percent(group.before.flush),
                                      percent(group.before.overflow)};
    if (scaled) {
      cells.push_back(share_bar(group, group.after));
      cells.push_back(percent(group.after.flush));
      cells.push_back(percent(group.after.overflow));
    }
    table.row(cells);
  }
  return table.html();
}

std::string capitalised(std::string text) {
  if (!text.empty()) text[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(text[0])));
  return text;
}

std::string sentence(const std::string& words) { return capitalised(words) + "."; }

/// The picture of the whole model stands open, those of its parts behind a line.
std::string kind_html(const Histograms& all, const Kind& kind) {
  const bool scaled = kind.scaled && all.scale != 1;
  std::string open, parts;
  for (const Distribution& group : kind.places) (group.place.empty() ? open : parts) += picture(all, group, scaled);
  std::string body = kind.note.empty() ? "" : paragraph(sentence(kind.note));
  body += by_layer(kind, all.scale, scaled) + open;
  if (!parts.empty())
    body +=
        folded(fmt::format("Histograms of {} by layer", kind.name), "<div class=\"charts\">\n" + parts + "</div>\n");
  return subsection(capitalised(kind.name), body);
}

std::string histograms_html(const Histograms& all) {
  const bool scaled =
      all.scale != 1 && std::any_of(all.kinds.begin(), all.kinds.end(), [](const Kind& k) { return k.scaled; });
  std::string out = paragraph(
      fmt::format("The numbers of step {} by powers of two. The strips below the bars are the ranges of {}{}.",
                  grouped(all.step), all.dtype,
                  scaled ? fmt::format(": at scale 1, and at the scale {} of the step, which moves gradients up",
                                       scale_text(all.scale))
                         : ""));
  out += legend();
  for (const Kind& kind : all.kinds) out += kind_html(all, kind);
  return out;
}

}  // namespace

std::string histogram_section(const StepLook& look) {
  const std::string body =
      look.histograms ? histograms_html(*look.histograms) : paragraph("No histograms: " + look.no_histograms);
  return section("histograms", "Numbers in 16 bits", body);
}

}  // namespace mixtape::report
