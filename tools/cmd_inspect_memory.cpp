// mixtape inspect memory CONFIG [--amp off,bf16]: what a training step of this configuration keeps in memory, and its
// peak.
#include <memory>

#include "core/error.h"
#include "tools/commands.h"
#include "tools/inspect/amps.h"
#include "tools/inspect/memory_table.h"
#include "tools/svg.h"

namespace mixtape::tools {
namespace {

struct MemoryOptions {
  std::string file, amps, svg;
  std::vector<std::string> sets;
  bool json = false;
};

/// A pile of boxes for each dtype: what parameters hold, and upon it what the forward saves.
SvgChart picture_of(const std::vector<inspect::AmpMemory>& runs) {
  const std::vector<inspect::MemoryPart> parts = inspect::memory_parts(runs);
  std::vector<std::string> names;
  std::vector<double> heights = {0};
  for (size_t i = 0; i < runs.size(); ++i) {
    names.push_back(runs[i].amp);
    double height = 0;
    for (const inspect::MemoryPart& part : parts) height += static_cast<double>(part.bytes[i]) / 0x1p20;
    heights.push_back(height);
  }
  SvgChart chart("Memory of a training step", SvgAxis::of_names("amp.dtype", names), SvgAxis::around("MiB", heights));
  std::vector<double> top(runs.size(), 0);
  for (const inspect::MemoryPart& part : parts) {
    for (size_t i = 0; i < runs.size(); ++i) {
      const double at = static_cast<double>(i), next = top[i] + static_cast<double>(part.bytes[i]) / 0x1p20;
      if (part.bytes[i] > 0) chart.box(part.name, {at + 0.25, top[i]}, {at + 0.75, next});
      top[i] = next;
    }
  }
  return chart;
}

void memory(const MemoryOptions& options) {
  trainer::Progress progress(options.json ? trainer::Verbosity::quiet : trainer::Verbosity::normal);
  if (options.amps.empty()) {
    if (!options.svg.empty()) fail(ErrorKind::config, "E-USAGE", "--svg compares dtypes: add --amp off,bf16,fp16");
    const inspect::MemoryPlan plan = inspect::measure_memory(load_config(options.file, options.sets), progress);
    progress.clear();
    return print(options.json ? plan.json().line() + "\n" : plan.text());
  }
  const auto runs = inspect::measure_memory_of(options.file, options.sets, inspect::parse_amps(options.amps), progress);
  progress.clear();
  print(options.json ? memory_table_json(runs).line() + "\n" : memory_table_text(runs));
  if (!options.svg.empty()) write_picture(options.svg, picture_of(runs));
}

}  // namespace

void add_inspect_memory(Verb& inspect) {
  Verb verb = inspect.add("memory", "what a training step keeps in memory, measured on the longest batch");
  const auto options = std::make_shared<MemoryOptions>();
  verb.option("CONFIG", options->file, {.doc = "configuration file (JSON with comments)", .required = true});
  verb.option(
      "--amp", options->amps,
      {.doc = "in these dtypes beside each other, with commas between: off, bf16, fp16", .placeholder = "LIST"});
  add_set_option(verb, options->sets);
  verb.flag("--json", options->json, "as JSON, in bytes; with --amp {\"runs\": [...]}");
  verb.option("--svg", options->svg, {.doc = "with --amp: draw the parts there", .placeholder = "FILE"});
  verb.action([options] { memory(*options); });
}

}  // namespace mixtape::tools
