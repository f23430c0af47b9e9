// mixtape inspect scale DIR: how the loss scale of a run moved, and what it cost.
#include <fmt/format.h>

#include <algorithm>
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

constexpr size_t most_named = 8;  // evaluations whose rules have room for words

/// The scale against the steps; evaluations and the steps that were skipped are marks on it.
SvgChart picture(const inspect::ScaleTimeline& run) {
  std::vector<double> scales;
  std::vector<SvgChart::Point> line;
  const inspect::ScalePoint* before = nullptr;
  for (const inspect::ScalePoint& point : run.points) {
    if (before != nullptr && before->scale != point.scale) {
      // A back-off comes with its skip; when a scale grew is not known better than this.
      const double at = static_cast<double>(before->skipped ? std::min(before->step + 1, point.step) : point.step);
      line.emplace_back(at, before->scale);
      line.emplace_back(at, point.scale);
    }
    line.emplace_back(static_cast<double>(point.step), point.scale);
    scales.push_back(point.scale / 2);
    scales.push_back(2 * point.scale);
    before = &point;
  }
  const double last = static_cast<double>(std::max<int64_t>(2, run.steps));
  SvgChart chart("Loss scale of " + run.dir, SvgAxis{"step", 1, last},
                 SvgAxis::around("loss scale", scales, AxisKind::log2));
  chart.line("loss scale", line);
  for (const inspect::SkippedStep& skip : run.skips) {
    const double at = static_cast<double>(skip.step), wide = (last - 1) / 300;
    chart.box(skip.retried ? "tried again" : "skipped", {at - wide, skip.scale}, {at + wide, 1.2 * skip.scale});
  }
  for (const inspect::ScaleAtEvaluation& at : run.evaluations) {
    const std::string words = at.flushed ? fmt::format("{:.2g} % flushed", 100 * *at.flushed) : "evaluated";
    chart.rule(static_cast<double>(at.step), run.evaluations.size() > most_named ? "" : words);
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
