#include "tools/teach_pictures.h"

namespace mixtape::tools {
namespace {

/// At most about 200 of the values, against their index.
std::vector<SvgChart::Point> against_index(const std::vector<double>& values) {
  std::vector<SvgChart::Point> out;
  const size_t stride = values.size() / 200 + 1;
  for (size_t i = 0; i < values.size(); i += stride) out.emplace_back(static_cast<double>(i), values[i]);
  const size_t last = values.size() - 1;
  if (last % stride != 0) out.emplace_back(static_cast<double>(last), values[last]);
  return out;
}

std::vector<SvgChart::Point> curve(const std::vector<int64_t>& at, const std::vector<double>& values) {
  std::vector<SvgChart::Point> out;
  for (size_t i = 0; i < values.size(); ++i) out.emplace_back(static_cast<double>(at[i]), values[i]);
  return out;
}

void draw_range(SvgChart& chart, const teach::Format& format, double row, double scale) {
  const double low = row + 0.2, high = row + 0.8;
  chart.box("normal numbers", {format.smallest_normal / scale, low}, {format.largest / scale, high});
  chart.box("subnormal numbers, with fewer digits", {format.smallest / scale, low},
            {format.smallest_normal / scale, high});
}

}  // namespace

SvgChart teach_picture(const std::vector<teach::Format>& formats, std::optional<double> scale) {
  std::vector<std::string> names;
  std::vector<double> ends = {1};
  for (const teach::Format& format : formats) {
    for (const double by : {1.0, scale.value_or(1.0)}) {
      ends.push_back(format.smallest / by);
      ends.push_back(format.largest / by);
    }
    // The first comes last: rows count from below.
    names.insert(names.begin(), std::string(format.name));
    if (scale) names.insert(names.begin(), std::string(format.name) + " / scale");
  }
  SvgChart chart("What each format can hold", SvgAxis::around("magnitude", ends, AxisKind::log2),
                 SvgAxis::of_names("", names));
  double row = static_cast<double>(names.size());
  for (const teach::Format& format : formats) {
    draw_range(chart, format, --row, 1);
    if (scale) draw_range(chart, format, --row, *scale);
  }
  return chart;
}

SvgChart teach_picture(const teach::Swallow& lesson) {
  std::vector<double> values = lesson.low.weight;
  values.insert(values.end(), lesson.master.weight.begin(), lesson.master.weight.end());
  values.insert(values.end(), lesson.copy.begin(), lesson.copy.end());
  const std::string name(lesson.format.name);
  SvgChart chart("Updates of " + teach::decimal(lesson.options.update) + " to a weight in " + name,
                 SvgAxis{"step", 0, static_cast<double>(lesson.options.steps)}, SvgAxis::around("weight", values));
  chart.line(name + " alone", against_index(lesson.low.weight));
  chart.line("fp32 master", against_index(lesson.master.weight));
  chart.line(name + " copy of the master", against_index(lesson.copy));
  return chart;
}

SvgChart teach_picture(const teach::Accumulate& lesson) {
  std::vector<double> values = lesson.exact_curve;
  values.push_back(0);
  for (const teach::Method& method : lesson.methods)
    values.insert(values.end(), method.curve.begin(), method.curve.end());
  SvgChart chart("A sum in " + std::string(lesson.format.name),
                 SvgAxis{"terms", 0, static_cast<double>(lesson.options.n)}, SvgAxis::around("sum", values));
  chart.line("exact", curve(lesson.at, lesson.exact_curve));
  for (const teach::Method& method : lesson.methods) {
    if (!method.curve.empty()) chart.line(method.name, curve(lesson.at, method.curve));
    if (method.stalled_after) chart.rule(static_cast<double>(*method.stalled_after), "stalls");
  }
  return chart;
}

SvgChart teach_picture(const teach::BreakLesson& lesson) {
  std::vector<double> values = {0};
  for (const teach::BreakRun* run : {&lesson.off, &lesson.on})
    values.insert(values.end(), run->loss.begin(), run->loss.end());
  SvgChart chart("teach break --" + std::string(lesson.facts().name),
                 SvgAxis{"step", 0, static_cast<double>(lesson.off.loss.size())}, SvgAxis::around("loss", values));
  chart.line(lesson.off.name, against_index(lesson.off.loss));
  chart.line(lesson.on.name, against_index(lesson.on.loss));
  return chart;
}

}  // namespace mixtape::tools
