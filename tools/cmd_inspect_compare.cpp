// mixtape inspect compare CONFIG --a fp32 --b fp16: two dtypes in lockstep, and the first op that is less exact than it
// must be.
#include <cmath>
#include <memory>

#include "tools/commands.h"
#include "tools/inspect/compare.h"
#include "tools/svg.h"

namespace mixtape::tools {
namespace {

struct CompareVerb {
  std::string file, svg;
  std::vector<std::string> sets;
  inspect::CompareOptions options;
  bool json = false;
};

/// How far b is from a against the steps: the gap of the losses, and 1 - cosine of the gradients of each layer.
SvgChart picture_of(const inspect::Comparison& c) {
  std::vector<double> values, steps;
  std::vector<SvgChart::Point> gap;
  for (const inspect::CompareStep& s : c.steps) {
    steps.push_back(static_cast<double>(s.step));
    gap.emplace_back(static_cast<double>(s.step), std::abs(s.gap()));
    values.push_back(std::abs(s.gap()));
    for (const double cosine : s.cosines) values.push_back(1 - cosine);
  }
  std::erase_if(values, [](double value) { return !(value > 0 && std::isfinite(value)); });
  if (values.empty()) values = {1e-9, 1};  // no distance at all
  SvgAxis x = SvgAxis::around("step", steps);
  SvgChart chart(message(c.b, " beside ", c.a), x, SvgAxis::around("distance", values, AxisKind::log2));
  chart.line("loss gap", gap);
  for (size_t i = 0; i < c.layers.size(); ++i) {
    std::vector<SvgChart::Point> line;
    for (const inspect::CompareStep& s : c.steps) line.emplace_back(static_cast<double>(s.step), 1 - s.cosines[i]);
    chart.line("1 - cosine, " + c.layers[i], line);
  }
  return chart;
}

void compare(const CompareVerb& verb) {
  trainer::Progress progress(verb.json ? trainer::Verbosity::quiet : trainer::Verbosity::normal);
  const inspect::Comparison result = inspect::compare(verb.file, verb.sets, verb.options, progress);
  progress.clear();
  print(verb.json ? inspect::comparison_json(result).pretty() : inspect::comparison_text(result));
  if (!verb.svg.empty()) write_picture(verb.svg, picture_of(result));
}

}  // namespace

void add_inspect_compare(Verb& inspect) {
  Verb verb = inspect.add("compare", "two dtypes in lockstep: loss gap, gradient cosines, ops outside their bounds");
  const auto options = std::make_shared<CompareVerb>();
  const std::vector<std::string> words = {"fp32", "off", "bf16", "fp16"};
  verb.option("CONFIG", options->file, {.doc = "configuration file (JSON with comments)", .required = true});
  verb.option("--a", options->options.a, {.doc = "the one to be held against", .shows_default = true, .words = words});
  verb.option("--b", options->options.b,
              {.doc = "the one whose ops are looked at", .shows_default = true, .words = words});
  verb.option("--steps", options->options.steps,
              {.doc = "how many, from the start", .shows_default = true, .placeholder = "N", .range = {1, 1'000'000}});
  verb.option("--check-every", options->options.check_every,
              {.doc = "compute each op of b again in f64 in every so many steps, from the first; 0: never",
               .shows_default = true,
               .placeholder = "N",
               .range = {0, 1'000'000}});
  verb.flag("--composed", options->options.composed, "every op by itself: what the fused ones stand for");
  add_set_option(verb, options->sets);
  verb.option("--svg", options->svg, {.doc = "draw loss gap and cosines there", .placeholder = "FILE"});
  verb.flag("--json", options->json, "as one JSON document: {\"a\", \"b\", \"steps\", \"ops\", \"accumulated\"}");
  verb.action([options] { compare(*options); });
}

}  // namespace mixtape::tools
