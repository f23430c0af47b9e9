// Loss, metrics, learning rate and gradient norm against the steps.
#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "tools/report/chart.h"
#include "tools/report/markup.h"
#include "tools/report/sections.h"

namespace mixtape::report {
namespace {

using Points = std::vector<Chart::Point>;

Points of_steps(const RunRecord& run, double StepEvent::*field) {
  Points out;
  for (const StepEvent& event : run.steps) out.emplace_back(static_cast<double>(event.step), event.*field);
  return out;
}

Points of_evals(const RunRecord& run, double Scores::*field) {
  Points out;
  for (const EvalEvent& event : run.evals)
    if (event.split == "val") out.emplace_back(static_cast<double>(event.step), event.scores.*field);
  return out;
}

draw::Axis axis_of(const std::vector<const Points*>& curves, draw::AxisKind kind = draw::AxisKind::linear) {
  std::vector<double> values;
  for (const Points* curve : curves)
    for (const auto& [x, y] : *curve) values.push_back(y);
  return draw::Axis::around("", values, kind);
}

/// Steps to take the mean of, so that a curve reads at a glance; 0 for a short one.
size_t window_of(const Points& points) { return points.size() < 60 ? 0 : points.size() / 20; }

bool any_finite(const Points& points) {
  return std::any_of(points.begin(), points.end(), [](const auto& p) { return std::isfinite(p.second); });
}

/// "from 0.69 at step 1 to 0.41 at step 300, between 0.39 and 0.71".
std::string course_of(const Points& points) {
  Points finite;
  for (const auto& point : points)
    if (std::isfinite(point.second)) finite.push_back(point);
  if (finite.empty()) return "never finite";
  const auto [low, high] = std::minmax_element(finite.begin(), finite.end(),
                                               [](const auto& a, const auto& b) { return a.second < b.second; });
  return fmt::format("from {} at step {:.0f} to {} at step {:.0f}, between {} and {}", figure(finite.front().second),
                     finite.front().first, figure(finite.back().second), finite.back().first, figure(low->second),
                     figure(high->second));
}

std::string loss_chart(const RunRecord& run) {
  const Points train = of_steps(run, &StepEvent::loss), val = of_evals(run, &Scores::loss);
  const size_t window = window_of(train);
  const Points mean = smoothed(train, window);
  // A single step far above all others would press the rest flat: the axis follows the mean where there is one.
  Chart chart("Loss", step_axis(run.last_step()), axis_of({window > 1 ? &mean : &train, &val}));
  chart.line(window > 1 ? "train, each logged step" : "train", 0, thinned(train), window > 1);
  if (window > 1) chart.line(fmt::format("train, mean of {}", window / 2 * 2 + 1), 0, thinned(mean));
  if (!val.empty()) {
    chart.line("", 1, val);
    chart.dots("val", 1, val);
  }
  return chart.html("Training loss " + course_of(train) + (val.empty() ? "" : "; on val " + course_of(val)));
}

std::string metrics_chart(const RunRecord& run) {
  const Points accuracy = of_evals(run, &Scores::accuracy), macro_f1 = of_evals(run, &Scores::macro_f1);
  if (accuracy.empty()) return "";
  Chart chart("Accuracy and macro-F1 on val", step_axis(run.last_step()), axis_of({&accuracy, &macro_f1}));
  chart.line("", 2, accuracy);
  chart.dots("accuracy", 2, accuracy);
  chart.line("", 3, macro_f1);
  chart.dots("macro-F1", 3, macro_f1);
  return chart.html("Accuracy " + course_of(accuracy) + "; macro-F1 " + course_of(macro_f1));
}

std::string rate_chart(const RunRecord& run) {
  const Points rate = of_steps(run, &StepEvent::lr);
  Chart chart("Learning rate", step_axis(run.last_step()), axis_of({&rate}));
  chart.line("learning rate", 4, thinned(rate));
  return chart.html("Learning rate " + course_of(rate));
}

std::string norm_chart(const RunRecord& run, const RunConfig& config) {
  const Points norms = of_steps(run, &StepEvent::grad_norm);
  if (!any_finite(norms)) return "";
  draw::Axis axis = axis_of({&norms}, draw::AxisKind::log2);
  if (!(axis.high > axis.low)) return "";
  const double limit = config.config ? config.config->trainer.max_grad_norm : 0;
  if (limit > 0) axis.low = std::min(axis.low, limit), axis.high = std::max(axis.high, limit);
  Chart chart("Gradient norm, before clipping", step_axis(run.last_step()), axis);
  const size_t window = window_of(norms);
  chart.line(window > 1 ? "each logged step" : "norm", 5, thinned(norms), window > 1);
  if (window > 1) chart.line(fmt::format("mean of {}", window / 2 * 2 + 1), 5, thinned(smoothed(norms, window)));
  if (limit > 0) chart.level("clipped to " + figure(limit), 1, limit);
  return chart.html("Gradient norm " + course_of(norms));
}

std::string lost_chart(const RunRecord& run) {
  const Points lost = of_steps(run, &StepEvent::lost_updates);
  if (!any_finite(lost)) return "";
  Chart chart("Share of updates that rounding swallowed", step_axis(run.last_step()), axis_of({&lost}));
  chart.line("lost updates", 1, thinned(lost));
  return chart.html("Share of lost updates " + course_of(lost));
}

std::string evaluations(const RunRecord& run) {
  if (run.evals.empty()) return paragraph("Nothing was evaluated yet.");
  Table table("Evaluations", {{"step", true}, {"split"}, {"loss", true}, {"accuracy", true}, {"macro-F1", true}, {""}});
  for (const EvalEvent& event : run.evals) {
    table.row({grouped(event.step), draw::escaped(event.split), figure(event.scores.loss),
               figure(event.scores.accuracy), figure(event.scores.macro_f1),
               event.best && event.split == "val" ? "<span class=\"badge good\">best</span>" : ""});
  }
  return run.evals.size() <= 12 ? table.html() : folded(plural(std::ssize(run.evals), "evaluation"), table.html());
}

}  // namespace

std::string curves_section(const RunRecord& run, const RunConfig& config) {
  std::string body;
  if (run.steps.empty())
    body = paragraph(run.skips.empty() ? "The log has no step yet." : "No step was applied so far: all were skipped.");
  else
    body = "<div class=\"charts\">\n" + loss_chart(run) + metrics_chart(run) + rate_chart(run) +
           norm_chart(run, config) + lost_chart(run) + "</div>\n";
  return section("curves", "Loss and metrics", body + evaluations(run));
}

}  // namespace mixtape::report
