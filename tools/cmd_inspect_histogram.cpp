// mixtape inspect histogram DIR|CONFIG: how large the numbers of one training step are, and which of them 16 bits lose.
#include <algorithm>
#include <cmath>
#include <filesystem>
#include <memory>

#include "amp/scale_state.h"
#include "core/error.h"
#include "tools/commands.h"
#include "tools/inspect/collect.h"
#include "tools/svg.h"
#include "tools/teach/format.h"
#include "tools/teach/number.h"

namespace mixtape::tools {
namespace {

struct HistogramOptions {
  std::string path, what = "wgrad,agrad,act,weight", scale = "auto", format, svg;
  std::vector<std::string> sets;
  int64_t step = 1;
  bool json = false, places = false;
};

inspect::CollectOptions collect_options(const HistogramOptions& options) {
  inspect::CollectOptions out;
  out.what = inspect::parse_what(options.what);
  if (!options.format.empty()) out.format = teach::parse_format(options.format).dtype;
  if (options.scale != "auto") {
    out.scale = teach::parse_finite("--scale", options.scale);
    amp::check({.dynamic = false, .init = *out.scale});  // before a long replay
  }
  return out;
}

/// Of the whole model: a line for each kind, the share of the values in each bin of [2^e, 2^(e + 1)).
SvgChart picture(const inspect::Collected& step) {
  std::vector<double> shares = {0}, ends;
  for (const inspect::Group& group : step.groups) {
    if (!group.place.empty() || !group.values.first()) continue;
    for (int e = *group.values.first(); e <= *group.values.last(); ++e) {
      shares.push_back(100 * static_cast<double>(group.values.in_bin(e)) / static_cast<double>(group.values.count()));
    }
    ends.push_back(std::ldexp(1.0, *group.values.first()));
    ends.push_back(std::ldexp(1.0, *group.values.last() + 1));
  }
  const inspect::LowFormat& format = step.format;
  ends.push_back(std::ldexp(1.0, format.smallest - 1) / step.scale);
  ends.push_back(std::ldexp(1.0, format.largest + 5));  // room for the words at the rule
  SvgChart chart(message("Magnitudes of step ", step.step, ", before any loss scale"),
                 SvgAxis::around("magnitude", ends, AxisKind::log2),
                 SvgAxis{"% of the values", 0, 1 + *std::max_element(shares.begin(), shares.end())});
  for (const inspect::Group& group : step.groups) {
    if (!group.place.empty() || !group.values.first()) continue;
    std::vector<SvgChart::Point> points;
    for (int e = *group.values.first() - 1; e <= *group.values.last() + 1; ++e) {
      const auto count = static_cast<double>(group.values.in_bin(e));
      points.emplace_back(std::ldexp(std::sqrt(2.0), e), 100 * count / static_cast<double>(group.values.count()));
    }
    chart.line(std::string(name_of(group.what)), points);
  }
  chart.rule(std::ldexp(1.0, format.smallest - 1), "0 below");
  chart.rule(std::ldexp(1.0, format.largest + 1), "inf above");
  if (step.scale != 1) {
    chart.rule(std::ldexp(1.0, format.smallest - 1) / step.scale, "scaled: 0 below");
    chart.rule(std::ldexp(1.0, format.largest + 1) / step.scale, "scaled: inf above");
  }
  return chart;
}

void histogram(const HistogramOptions& options) {
  const inspect::CollectOptions wanted = collect_options(options);
  trainer::Progress progress(options.json ? trainer::Verbosity::quiet : trainer::Verbosity::normal);
  inspect::Collected step;
  const inspect::Visit look = [&](const inspect::PausedStep& paused) { step = inspect::collect(paused, wanted); };
  std::error_code ignored;
  if (!std::filesystem::is_directory(options.path, ignored)) {
    (void)inspect::visit_steps(load_config(options.path, options.sets), {options.step}, progress, look);
  } else if (options.sets.empty()) {
    (void)inspect::visit_steps_of_run(options.path, {options.step}, progress, look);
  } else {
    fail(ErrorKind::config, "E-USAGE", "--set changes a configuration; the run in " + options.path + " is what it was");
  }
  progress.clear();
  print(options.json ? collected_json(step).pretty() : collected_text(step, options.places));
  if (!options.svg.empty()) write_picture(options.svg, picture(step));
}

}  // namespace

void add_inspect_histogram(Verb& inspect) {
  Verb verb = inspect.add("histogram", "how large the numbers of a training step are, and which of them 16 bits lose");
  const auto options = std::make_shared<HistogramOptions>();
  verb.option("DIR|CONFIG", options->path, {.doc = "run directory, or configuration file", .required = true});
  verb.option("--what", options->what,
              {.doc = "which numbers: gradients of weights and activations, activations, weights",
               .shows_default = true,
               .placeholder = "LIST"});
  verb.option("--step", options->step,
              {.doc = "just before this step: a run is repeated from its checkpoint, a configuration trained from the "
                      "start",
               .shows_default = true,
               .range = {1, INT64_MAX}});
  verb.option("--scale", options->scale,
              {.doc = "loss scale to ask about: 65536, 2^16; auto: the run's own",
               .shows_default = true,
               .placeholder = "NUMBER|auto"});
  verb.option("--format", options->format,
              {.doc = "16-bit format to ask about; without it the run's own, or fp16", .words = {"fp16", "bf16"}});
  add_set_option(verb, options->sets);
  verb.flag("--places", options->places, "the bins of every part of the model, not of the whole alone");
  verb.option("--svg", options->svg, {.doc = "draw the bins there", .placeholder = "FILE"});
  verb.flag("--json", options->json, "as one JSON document: {\"step\", \"format\", \"scale\", \"groups\", …}");
  verb.action([options] { histogram(*options); });
}

}  // namespace mixtape::tools
