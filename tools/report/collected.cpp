// What `inspect histogram` collects of a step, as the page shows it.
#include <algorithm>
#include <charconv>
#include <filesystem>

#include "tools/inspect/collect.h"
#include "tools/report/step_look.h"

namespace mixtape::report {
namespace {

FormatShares shares_of(const inspect::Fate& fate) {
  const auto share = [&](int64_t count) {
    return fate.count() == 0 ? 0.0 : static_cast<double>(count) / static_cast<double>(fate.count());
  };
  return {.flush = share(fate.flushed),
          .subnormal = share(fate.subnormal),
          .normal = share(fate.normal),
          .overflow = share(fate.overflow + fate.inf + fate.nan)};
}

Distribution distribution_of(const inspect::Group& group, const inspect::LowFormat& format) {
  const inspect::Histogram& values = group.values;
  const auto count = static_cast<double>(std::max<int64_t>(values.count(), 1));
  Distribution out{.place = group.place,
                   .count = values.count(),
                   .zero = static_cast<double>(values.zero()) / count,
                   .bins = {},
                   .before = shares_of(values.fate(format, 0)),
                   .after = shares_of(group.at_scale)};
  if (!values.first()) return out;
  out.lowest = *values.first();
  for (int exponent = out.lowest; exponent <= *values.last(); ++exponent)
    out.bins.push_back(static_cast<double>(values.in_bin(exponent)) / count);
  return out;
}

std::string kind_name(inspect::What what) {
  switch (what) {
    case inspect::What::wgrad: return "gradients of weights";
    case inspect::What::agrad: return "gradients of activations";
    case inspect::What::act: return "activations";
    case inspect::What::weight: break;
  }
  return "weights";
}

/// What is kept in f32 is shown all the same: the shares are those that 16 bits would have.
std::string note_of(inspect::What what, const std::string& dtype) {
  const std::string note(inspect::meaning_of(what));
  return what == inspect::What::wgrad ? note + ": the shares are what " + dtype + " would make of them" : note;
}

/// The step right after the newest checkpoint before `last`, which nothing has to be trained again for; else the first.
int64_t nearest_step(const std::string& dir, int64_t last) {
  int64_t newest = 0;
  std::error_code error;
  for (std::filesystem::directory_iterator at(dir + "/checkpoints", error), end; !error && at != end;
       at.increment(error)) {
    const std::string name = at->path().filename().string();
    int64_t step = 0;
    const auto [stop, fault] =
        std::from_chars(name.data() + std::min<size_t>(5, name.size()), name.data() + name.size(), step);
    const bool whole_name = name.starts_with("step-") && fault == std::errc() && stop == name.data() + name.size();
    if (whole_name && step < last) newest = std::max(newest, step);
  }
  return newest + 1;
}

}  // namespace

Histograms collect_histograms(const RunRecord& run, trainer::Progress& progress) {
  Histograms out;
  const std::vector<int64_t> steps = {nearest_step(run.dir, run.last_step())};
  (void)inspect::visit_steps_of_run(run.dir, steps, progress, [&](const inspect::PausedStep& step) {
    const inspect::Collected found = inspect::collect(step, {});
    out.dtype = name_of(found.format.dtype);
    out.step = found.step;
    out.scale = found.scale;
    out.flush_below = found.format.smallest;
    out.subnormal_below = found.format.smallest_normal;
    out.overflow_from = found.format.largest + 1;
    for (const inspect::Group& group : found.groups) {
      const std::string name = kind_name(group.what);
      if (out.kinds.empty() || out.kinds.back().name != name)
        out.kinds.push_back({.name = name,
                             .note = note_of(group.what, out.dtype),
                             .scaled = inspect::is_scaled(group.what),
                             .places = {}});
      out.kinds.back().places.push_back(distribution_of(group, found.format));
    }
  });
  return out;
}

}  // namespace mixtape::report
