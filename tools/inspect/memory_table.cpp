#include "tools/inspect/memory_table.h"

#include <fmt/format.h>

#include "core/error.h"
#include "tools/inspect/amps.h"

namespace mixtape::inspect {
namespace {

double mib(int64_t bytes) { return static_cast<double>(bytes) / 0x1p20; }

std::string table_line(std::string_view name, const std::vector<std::string>& cells) {
  std::string out = fmt::format("{:<22}", name);
  for (const std::string& cell : cells) out += fmt::format("{:>26}", cell);
  out.erase(out.find_last_not_of(' ') + 1);
  return out + "\n";
}

/// What 16 bits change, from the figures; "" where "off" or 16 bits are not among the runs.
std::string verdict_of(const std::vector<AmpMemory>& runs) {
  std::string out;
  for (const AmpMemory& off : runs) {
    for (const AmpMemory& low : runs) {
      if (off.amp != "off" || low.amp == "off") continue;
      const auto ratio = [](int64_t a, int64_t b) { return static_cast<double>(a) / static_cast<double>(b); };
      out += fmt::format(
          "{}: weights with their copies take {:.2f} times the memory, what backward needs {:.2f} times, "
          "the peak of training {:.2f} times\n",
          low.amp, ratio(low.plan.weights + low.plan.copies, off.plan.weights + off.plan.copies),
          ratio(low.plan.all_saved(), off.plan.all_saved()), ratio(low.plan.training_peak(), off.plan.training_peak()));
    }
  }
  return out;
}

}  // namespace

std::vector<MemoryPart> memory_parts(const std::vector<AmpMemory>& runs) {
  std::vector<MemoryPart> parts = {
      {"weights", {}}, {"16-bit copies", {}}, {"gradients", {}}, {"optimizer", {}}, {"saved for backward", {}}};
  for (const auto& [amp, plan] : runs) {
    const int64_t bytes[] = {plan.weights, plan.copies, plan.gradients, plan.optimizer, plan.all_saved()};
    for (size_t i = 0; i < parts.size(); ++i) parts[i].bytes.push_back(bytes[i]);
  }
  return parts;
}

std::vector<AmpMemory> measure_memory_of(const std::string& file, const std::vector<std::string>& sets,
                                         const std::vector<std::string>& amps, trainer::Progress& progress) {
  std::vector<config::Config> configs;
  for (const std::string& amp : amps) configs.push_back(amp_config(file, sets, amp));
  std::vector<AmpMemory> runs;
  for (size_t i = 0; i < amps.size(); ++i) runs.push_back({amps[i], measure_memory(configs[i], progress)});
  return runs;
}

std::string memory_table_text(const std::vector<AmpMemory>& runs) {
  const MemoryPlan& first = runs.front().plan;
  std::string out =
      message("a training step of the longest batch: ", first.rows, " texts of at most ", first.longest, " tokens, ",
              first.tokens, " in all; ", first.parameters, " parameters\nMiB, and bytes a parameter\n");
  std::vector<std::string> names, training, peaks;
  for (const AmpMemory& run : runs) {
    names.push_back(run.amp);
    training.push_back(fmt::format("{:.2f}         ", mib(run.plan.training_peak())));
    peaks.push_back(fmt::format("{:.2f}         ", mib(run.plan.peak())));
  }
  out += table_line("", names);
  for (const MemoryPart& part : memory_parts(runs)) {
    std::vector<std::string> cells;
    for (size_t i = 0; i < runs.size(); ++i) {
      const double each = static_cast<double>(part.bytes[i]) / static_cast<double>(runs[i].plan.parameters);
      cells.push_back(fmt::format("{:.2f} {:8.2f}", mib(part.bytes[i]), each));
    }
    out += table_line(part.name, cells);
  }
  return out + table_line("peak of training", training) + table_line("peak of the run", peaks) + verdict_of(runs);
}

trainer::Json memory_table_json(const std::vector<AmpMemory>& runs) {
  std::vector<trainer::Json> all;
  for (const AmpMemory& run : runs) all.push_back(run.plan.json().set("amp", run.amp));
  return trainer::Json::object().set("runs", all);
}

}  // namespace mixtape::inspect
