// The loss scale against the steps, and every step that was thrown away.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "tools/report/chart.h"
#include "tools/report/markup.h"
#include "tools/report/sections.h"

namespace mixtape::report {
namespace {

constexpr size_t most_rows = 1000;  // of the table; the chart has all

/// The scale that each known attempt used, in the order of the attempts.
std::vector<Chart::Point> scales_of(const RunRecord& run) {
  std::vector<Chart::Point> out;
  size_t next = 0;
  for (const StepEvent& event : run.steps) {
    for (; next < run.skips.size() && run.skips[next].step <= event.step; ++next)
      out.emplace_back(static_cast<double>(run.skips[next].step), run.skips[next].loss_scale);
    out.emplace_back(static_cast<double>(event.step), event.loss_scale);
  }
  for (; next < run.skips.size(); ++next)
    out.emplace_back(static_cast<double>(run.skips[next].step), run.skips[next].loss_scale);
  std::erase_if(out, [](const auto& p) { return !std::isfinite(p.second) || p.second <= 0; });
  return out;
}

std::string scale_chart(const RunRecord& run, const std::vector<Chart::Point>& scales) {
  std::vector<double> values, skipped;
  for (const auto& [step, scale] : scales) values.push_back(scale);
  for (const SkipEvent& skip : run.skips) skipped.push_back(static_cast<double>(skip.step));
  draw::Axis axis = draw::Axis::around("", values, draw::AxisKind::log2);
  axis.low /= 2, axis.high *= 2;  // room above and below a level
  Chart chart("Loss scale", step_axis(run.last_step()), axis);
  chart.staircase("scale", 0, scales);
  if (!skipped.empty()) chart.marks("thrown away", 1, skipped);
  return chart.html(fmt::format("Loss scale from {} to {}, {}", scale_text(values.front()), scale_text(values.back()),
                                plural(std::ssize(run.skips), "attempt") + " thrown away"));
}

std::string parameters_html(const SkipEvent& skip) {
  std::string out;
  const size_t shown = std::min<size_t>(skip.parameters.size(), 3);
  for (size_t i = 0; i < shown; ++i) out += (i == 0 ? "" : ", ") + code_html(skip.parameters[i]);
  if (skip.parameters.size() > shown) out += fmt::format(" and {} more", skip.parameters.size() - shown);
  if (!skip.culprit.empty()) out += "; first not finite: " + code_html(skip.culprit);
  return out;
}

std::string skip_table(const RunRecord& run) {
  Table table("Attempts that were thrown away", {{"step", true}, {"scale", true}, {"what happened"}, {"not finite"}});
  for (size_t i = 0; i < std::min(run.skips.size(), most_rows); ++i) {
    const SkipEvent& skip = run.skips[i];
    std::string what = skip.outcome == "skipped_nonfinite_loss" ? "loss&nbsp;not&nbsp;finite" : "overflow";
    table.row({grouped(skip.step), power_html(skip.loss_scale),
               what + (skip.retried ? ",&nbsp;tried&nbsp;again" : ",&nbsp;skipped"), parameters_html(skip)});
  }
  std::string out = table.html();
  if (run.skips.size() > most_rows)
    out += paragraph(fmt::format("and {} more: the chart has all, log.jsonl their parameters.",
                                 grouped(std::ssize(run.skips) - static_cast<int64_t>(most_rows))));
  return run.skips.size() <= 12 ? out : folded("All attempts that were thrown away", out);
}

/// Why the scale is what it is.
std::string setting_text(const RunConfig& config) {
  if (!config.config) return "";
  const config::AmpConfig& amp = config.config->amp;
  if (amp.dtype == config::AmpDtype::off) return "The run computes in f32, which needs no loss scale.";
  if (amp.dtype == config::AmpDtype::bf16)
    return "bf16 has the range of f32, so nothing is scaled. A step whose gradients are not finite is skipped all the "
           "same.";
  if (amp.loss_scale > 0) return fmt::format("The scale is fixed at {}.", scale_text(amp.loss_scale));
  return fmt::format("The scale is dynamic: times {} at an overflow, times {} after {} clean updates.",
                     figure(amp.backoff_factor), figure(amp.growth_factor), grouped(amp.growth_interval));
}

std::string course_text(const RunRecord& run, const std::vector<Chart::Point>& scales) {
  int64_t ups = 0, downs = 0;
  for (size_t i = 1; i < scales.size(); ++i) {
    ups += scales[i].second > scales[i - 1].second ? 1 : 0;
    downs += scales[i].second < scales[i - 1].second ? 1 : 0;
  }
  const int64_t steps = std::max<int64_t>(run.last_step(), 1), skipped = run.skipped();
  const int64_t again = std::ssize(run.skips) - skipped;
  std::string out = skipped == 0 ? "No step was skipped"
                                 : fmt::format("{} of {} skipped ({})", plural(skipped, "step"), grouped(steps),
                                               percent(static_cast<double>(skipped) / static_cast<double>(steps)));
  if (again > 0) out += fmt::format(", {} tried again", plural(again, "attempt"));
  if (ups + downs > 0) out += fmt::format("; the log sees {} and {}", plural(ups, "growth"), plural(downs, "back-off"));
  return out + ".";
}

}  // namespace

std::string scale_section(const RunRecord& run, const RunConfig& config) {
  const std::vector<Chart::Point> scales = scales_of(run);
  std::string body = paragraph(setting_text(config) + " " + (scales.empty() ? "" : course_text(run, scales)));
  const bool constant_one = std::all_of(scales.begin(), scales.end(), [](const auto& p) { return p.second == 1; });
  if (!scales.empty() && !(constant_one && run.skips.empty())) body += scale_chart(run, scales);
  if (!run.skips.empty()) body += skip_table(run);
  return section("scale", "Loss scale and skipped steps", body);
}

}  // namespace mixtape::report
