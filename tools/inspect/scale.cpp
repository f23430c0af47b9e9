#include "tools/inspect/scale.h"

#include <algorithm>

#include "core/error.h"
#include "tools/inspect/collect.h"
#include "tools/trainer/run_dir.h"
#include "tools/trainer/setup.h"

namespace mixtape::inspect {
namespace {

SkippedStep skipped_step(const LogEvent& event, const ScalePoint& at) {
  SkippedStep out{.step = at.step, .scale = at.scale, .outcome = event.text("outcome"), .first = {}};
  out.retried = event.flag("retried");
  for (const config::Member& member : event.object.members) {
    if (member.key != "parameters") continue;
    out.parameters = std::ssize(member.value.items);
    if (!member.value.items.empty()) out.first = member.value.items.front().text;
  }
  return out;
}

/// What became of the scale between two known steps.
void compare(const ScalePoint& before, const ScalePoint& now, ScaleTimeline& timeline) {
  if (now.scale == before.scale) return;
  (now.scale > before.scale ? timeline.growths : timeline.backoffs)
      .push_back({.after = before.step, .by = now.step, .from = before.scale, .to = now.scale});
}

/// Evaluations come after their step; the step may have no event.
void find_scales(ScaleTimeline& timeline) {
  const std::vector<ScalePoint>& points = timeline.points;
  for (ScaleAtEvaluation& at : timeline.evaluations) {
    const auto next = std::find_if(points.begin(), points.end(), [&](const ScalePoint& p) { return p.step > at.step; });
    if (next == points.begin()) continue;
    const ScalePoint& before = *(next - 1);
    at.scale = before.step == at.step ? before.scale : scale_between(before, next == points.end() ? nullptr : &*next);
  }
}

}  // namespace

std::optional<double> scale_between(const ScalePoint& before, const ScalePoint* next) {
  if (next == nullptr) return before.skipped ? std::nullopt : std::optional(before.scale);
  if (next->scale == before.scale || (before.skipped && next->scale < before.scale)) return next->scale;
  return std::nullopt;
}

void read_scales(const LogEvents& log, ScaleTimeline& timeline) {
  timeline.damaged = log.damaged;
  for (const LogEvent& event : log.events) {
    const std::optional<int64_t> step = event.integer("step");
    if (!step) continue;
    timeline.steps = std::max(timeline.steps, *step);
    if (event.name == "resume") timeline.resumes.push_back(*step);
    if (event.name == "eval" && event.text("split") == "val") {
      timeline.evaluations.push_back({.step = *step, .scale = {}, .loss = event.number("loss"), .flushed = {}});
    }
    const std::optional<double> scale = event.number("loss_scale");
    if (!scale || (event.name != "step" && event.name != "overflow")) continue;
    const bool skipped = event.name == "overflow" || event.text("outcome").starts_with("skipped");
    const ScalePoint point{.step = *step, .scale = *scale, .skipped = skipped};
    if (event.name == "overflow") timeline.skips.push_back(skipped_step(event, point));
    if (event.name == "step") timeline.updates = event.integer("updates").value_or(timeline.updates);
    if (!timeline.points.empty()) compare(timeline.points.back(), point, timeline);
    timeline.points.push_back(point);
  }
  find_scales(timeline);
}

ScaleTimeline scale_timeline(const std::string& path) {
  const trainer::RunDir dir = trainer::RunDir::open(path);
  const config::Config config = config::load_config(dir.path("config.json"), {});
  ScaleTimeline out;
  out.dir = path;
  out.amp = config.amp.dtype == config::AmpDtype::fp16   ? "fp16"
            : config.amp.dtype == config::AmpDtype::bf16 ? "bf16"
                                                         : "off";
  out.dynamic = trainer::make_precision(config).scaler.scale.dynamic;
  read_scales(read_log_events(dir.path()), out);
  return out;
}

void measure_flushed(ScaleTimeline& timeline, trainer::Progress& progress) {
  if (timeline.amp != "fp16") return;
  std::vector<int64_t> steps;
  for (const ScaleAtEvaluation& at : timeline.evaluations) {
    if (at.step >= 1 && (steps.empty() || at.step > steps.back())) steps.push_back(at.step);
  }
  if (steps.empty()) return;
  (void)visit_steps_of_run(timeline.dir, steps, progress, [&](const PausedStep& paused) {
    const Collected step = collect(paused, {.what = {What::agrad}, .format = {}, .scale = {}});
    for (ScaleAtEvaluation& at : timeline.evaluations) {
      if (at.step != paused.step()) continue;
      at.flushed = step.groups.front().at_scale.lost();
      at.scale = step.scale;
    }
  });
}

}  // namespace mixtape::inspect
