#include <fmt/format.h>

#include "core/error.h"
#include "tools/inspect/speed.h"

namespace mixtape::inspect {
namespace {

using trainer::Json;

constexpr double kPays = 1.05;       // less is what two measurements differ by
constexpr double kMostMemory = 0.5;  // of the time outside products
constexpr double kManyCasts = 0.1;   // of the bytes

std::string seconds_text(double seconds) {
  return seconds < 1 ? fmt::format("{:.3f} ms", seconds * 1e3) : fmt::format("{:.3f} s", seconds);
}

}  // namespace

std::string speed_verdict(const SpeedRun& off, const SpeedRun& low, const SpeedMachine& machine) {
  const double gain = off.seconds / low.seconds;
  if (low.flops_low == 0) return message(low.amp, " cannot pay: no product runs in 16 bits under this policy");
  if (gain >= kPays) return fmt::format("{} pays: {:.2f} times as fast as off", low.amp, gain);
  std::string why;
  const auto add = [&](const std::string& reason) { why += (why.empty() ? "" : "; ") + reason; };
  if (low.amp == "bf16" && !machine.native_bf16) add("this CPU multiplies bf16 through f32: no instruction");
  if (low.amp == "fp16") add("fp16 on the CPU is storage: multiplied in f32, rounded once");
  if (low.memory_share() > kMostMemory) {
    add(fmt::format("{:.0f} % of the time is in ops that move memory: batch {} ({} tokens) is too small",
                    100 * low.memory_share(), low.rows, low.tokens));
  }
  if (low.cast_share() > kManyCasts) {
    add(fmt::format("casts move {:.0f} % of the bytes{}", 100 * low.cast_share(),
                    low.cast_cause.empty() ? "" : ": " + low.cast_cause));
  }
  if (why.empty())
    add(fmt::format("products take {:.0f} % of the time and are no faster", 100 * low.share(WorkClass::products)));
  return fmt::format("{} does not pay ({:.2f} times as fast as off): {}", low.amp, gain, why);
}

std::string speed_text(const Speed& speed) {
  std::string out = fmt::format("{:<18}", "one step");
  const auto line = [&](std::string_view name, const auto& cell) {
    out += fmt::format("{:<18}", name);
    for (const SpeedRun& run : speed.runs) out += fmt::format("{:>22}", cell(run));
    out += "\n";
  };
  for (const SpeedRun& run : speed.runs) out += fmt::format("{:>22}", "amp " + run.amp);
  out += "\n";
  line("time", [](const SpeedRun& run) { return seconds_text(run.seconds); });
  for (int i = 0; i < work_classes; ++i) {
    const auto work = static_cast<WorkClass>(i);
    line(message("  ", name_of(work)), [&](const SpeedRun& run) {
      return fmt::format("{} {:>4.1f} %", seconds_text(run.class_seconds[i]), 100 * run.share(work));
    });
  }
  line("GFLOP in products",
       [](const SpeedRun& run) { return fmt::format("{:.4f}", (run.flops_wide + run.flops_low) / 1e9); });
  line("  of 16 bits", [](const SpeedRun& run) { return fmt::format("{:.1f} %", 100 * run.low_share()); });
  line("MB moved by ops",
       [](const SpeedRun& run) { return fmt::format("{:.3f}", static_cast<double>(run.bytes) / 1e6); });
  line("  by casts", [](const SpeedRun& run) { return fmt::format("{:.1f} %", 100 * run.cast_share()); });
  for (const std::string& verdict : speed.verdicts) out += "verdict: " + verdict + "\n";
  return out;
}

Json speed_json(const Speed& speed) {
  Json runs = Json::array();
  for (const SpeedRun& run : speed.runs) {
    Json classes = Json::array();
    for (int i = 0; i < work_classes; ++i) {
      const auto work = static_cast<WorkClass>(i);
      classes.push(
          Json::object().set("name", name_of(work)).set("seconds", run.class_seconds[i]).set("share", run.share(work)));
    }
    runs.push(Json::object()
                  .set("amp", run.amp)
                  .set("steps", run.steps)
                  .set("seconds", run.seconds)
                  .set("rows", run.rows)
                  .set("tokens", run.tokens)
                  .set("classes", std::move(classes))
                  .set("flops_wide", run.flops_wide)
                  .set("flops_low", run.flops_low)
                  .set("low_share", run.low_share())
                  .set("bytes", run.bytes)
                  .set("cast_bytes", run.cast_bytes)
                  .set("cast_share", run.cast_share())
                  .set("cast_cause", run.cast_cause.empty() ? Json() : Json(run.cast_cause))
                  .set("cause_bytes", run.cause_bytes));
  }
  return Json::object().set("runs", std::move(runs)).set("verdicts", speed.verdicts);
}

}  // namespace mixtape::inspect
