// mixtape inspect scale DIR: how the loss scale of a run moved, and what it cost.
#include <memory>

#include "core/error.h"
#include "tools/commands.h"
#include "tools/inspect/scale.h"
#include "tools/svg.h"

namespace mixtape::tools {
namespace {

struct ScaleVerbOptions {
  std::string dir, svg;
  bool json = false, flushed = false;
};

/// The scale against the steps; evaluations and the steps that were skipped are marks on it.
SvgChart picture(const inspect::ScaleTimeline& run) {
  std::vector<double> scales;
  std::vector<SvgChart::Point> line;
  for (const inspect::ScalePoint& point : run.points) {
    const auto at = static_cast<double>(point.step);
    if (!line.empty() && line.back().second != point.scale) line.emplace_back(at, line.back().second);
    line.emplace_back(at, point.scale);
    scales.push_back(point.scale);
    scales.push_back(2 * point.scale);
  }
  const double last = static_cast<double>(std::max<int64_t>(2, run.steps));
  SvgChart chart("Loss scale of " + run.dir, SvgAxis{"step", 1, last},
                 SvgAxis::around("loss scale", scales, AxisKind::log2));
  chart.line("loss scale", line);
  for (const inspect::SkippedStep& skip : run.skips) {
    const double at = static_cast<double>(skip.step), wide = (last - 1) / 300;
    chart.box("skipped", {at - wide, skip.scale}, {at + wide, 1.2 * skip.scale});
  }
  for (const inspect::ScaleAtEvaluation& at : run.evaluations) {
    chart.rule(static_cast<double>(at.step), at.flushed ? message(100 * *at.flushed, " % flushed") : "evaluation");
  }
  return chart;
}

void scale(const ScaleVerbOptions& options) {
  inspect::ScaleTimeline run = inspect::scale_timeline(options.dir);
  trainer::Progress progress(options.json ? trainer::Verbosity::quiet : trainer::Verbosity::normal);
  if (options.flushed) inspect::measure_flushed(run, progress);
  progress.clear();
  print(options.json ? scale_json(run).pretty() : scale_text(run));
  if (!options.svg.empty()) write_picture(options.svg, picture(run));
}

}  // namespace

void add_inspect_scale(Verb& inspect) {
  Verb verb = inspect.add("scale", "how the loss scale of a run moved: growths, back-offs, skipped steps");
  const auto options = std::make_shared<ScaleVerbOptions>();
  verb.option("DIR", options->dir, {.doc = "run directory", .required = true});
  verb.flag("--flushed", options->flushed,
            "repeat the steps before the evaluations and count the gradients that were flushed to 0 (fp16)");
  verb.option("--svg", options->svg, {.doc = "draw the scale against the steps there", .placeholder = "FILE"});
  verb.flag("--json", options->json, "as one JSON document: {\"points\", \"growths\", \"backoffs\", \"skips\", …}");
  verb.action([options] { scale(*options); });
}

}  // namespace mixtape::tools
