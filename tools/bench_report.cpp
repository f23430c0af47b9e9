#include "tools/bench_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "core/kernels/parallel.h"
#include "tools/config/build_info.h"
#include "tools/config/fields.h"
#include "tools/trainer/json.h"

namespace mixtape::tools {
namespace {

using trainer::Json;

constexpr int64_t settled_after = 2;  // steps: from the third on every size has been seen

double fastest(const StepFigures& f) { return *std::min_element(f.seconds.begin(), f.seconds.end()); }

/// Of the steps from the third on; -1 when there is none.
int64_t late_allocations(const StepFigures& f) {
  if (std::ssize(f.system_allocations) <= settled_after) return -1;
  return std::accumulate(f.system_allocations.begin() + settled_after, f.system_allocations.end(), int64_t{0});
}

std::string head_text(const StepBench& options, const StepFigures& f) {
  const auto mib = [](int64_t bytes) { return static_cast<double>(bytes) / 0x1p20; };
  return fmt::format(
      "{}, amp {}, batch {} x {} tokens, {} threads, {:.1f} M parameters\n"
      "  median {:.2f} ms, fastest {:.2f} ms, {:.0f} tokens/s, {:.1f} GFLOP/s ({} x weights x tokens + attention)\n"
      "  at most {:.1f} MiB allocated, {:.1f} MiB saved for backward, {:.1f} MiB resident\n",
      options.infer ? "inference" : "training step", f.amp, options.batch, options.seq, kernels::thread_count(),
      static_cast<double>(f.parameters) / 1e6, median(f.seconds) * 1e3, fastest(f) * 1e3,
      static_cast<double>(f.tokens) / f.total_s, f.flops / f.total_s / 1e9, options.infer ? 2 : 6, mib(f.peak_bytes),
      mib(f.saved_bytes), mib(f.peak_rss_bytes));
}

std::string bits_text(const StepFigures& f) {
  const int64_t late = late_allocations(f);
  return fmt::format(
      "  loss {:.9g}, xxh3 of all losses {}, of the weights {}\n  blocks taken from the system in each "
      "step: {}{}\n  {:.0f} checks for an observer x {:.2f} ns are {:.5f} % of a step\n",
      f.loss, f.losses_hash, f.weights_hash, fmt::join(f.system_allocations, " "),
      late < 0 ? "" : fmt::format("; {} from the third on", late), f.observer_checks, f.check_s * 1e9,
      100 * f.observer_share());
}

std::string classes_text(const Profile& profile) {
  const int64_t steps = profile.steps();
  std::string out = fmt::format("where the time goes ({} with an observer, so a little slower):\n",
                                steps == 1 ? "one more step" : fmt::format("mean of {} more steps", steps));
  for (const ClassTimes& times : profile.classes()) {
    out += fmt::format("  {:22} {:9.2f} ms forward {:9.2f} ms backward {:6.1f} %\n", times.name, times.forward * 1e3,
                       times.backward * 1e3, 100 * times.sum() / profile.seconds());
  }
  return out;
}

std::string floor_text(const Floor& floor) {
  std::string out = fmt::format("products: {:.1f} GFLOP at the measured peak of {:.1f} GFLOP/s are {:.2f} ms\n",
                                floor.flops / 1e9, floor.gemm_rate / 1e9, floor.products_s() * 1e3);
  if (floor.optimizer_bytes > 0) {
    out += fmt::format(
        "optimizer: {:.1f} MB at the measured triad of {:.1f} GB/s are {:.2f} ms; it moved {:.1f} GB/s, {:.0f} % of "
        "the triad\n",
        floor.optimizer_bytes / 1e6, floor.triad_rate / 1e9, floor.bytes_s() * 1e3, floor.optimizer_rate() / 1e9,
        100 * floor.optimizer_rate() / floor.triad_rate);
  }
  return out + fmt::format("floor {:.2f} ms, step is {:.2f} x the floor\n", floor.seconds() * 1e3,
                           floor.step_s / floor.seconds());
}

Json classes_json(const Profile& profile) {
  Json all = Json::array();
  for (const ClassTimes& times : profile.classes()) {
    all.push(Json::object()
                 .set("class", times.name)
                 .set("forward_s", times.forward)
                 .set("backward_s", times.backward)
                 .set("share", times.sum() / profile.seconds()));
  }
  return all;
}

Json floor_json(const Floor* floor) {
  if (floor == nullptr) return {};
  return Json::object()
      .set("seconds", floor->seconds())
      .set("step_s", floor->step_s)
      .set("ratio", floor->step_s / floor->seconds())
      .set("gflop", floor->flops / 1e9)
      .set("gemm_gflops", floor->gemm_rate / 1e9)
      .set("products_s", floor->products_s())
      .set("optimizer_bytes", floor->optimizer_bytes)
      .set("triad_gb_per_s", floor->triad_rate / 1e9)
      .set("optimizer_s", floor->bytes_s())
      .set("optimizer_gb_per_s", floor->optimizer_rate() / 1e9)
      .set("optimizer_of_triad", floor->triad_rate > 0 ? floor->optimizer_rate() / floor->triad_rate : 0);
}

}  // namespace

double StepFigures::observer_share() const { return observer_checks * check_s / median(seconds); }

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

std::string step_text(const StepBench& options, const StepFigures& figures, const Profile& profile,
                      const Floor* floor) {
  std::string out = head_text(options, figures);
  if (!figures.composed.empty()) out += "  composed: " + config::joined(figures.composed, ", ", "") + "\n";
  out += "  fused rows: " + config::joined(profile.fused_rows(), ", ", "none") + "\n";
  return out + bits_text(figures) + classes_text(profile) + (floor == nullptr ? "" : floor_text(*floor));
}

std::string step_json(const StepBench& options, const StepFigures& f, const Profile& profile, const Floor* floor) {
  const int64_t late = late_allocations(f);
  return Json::object()
             .set("mode", options.infer ? "infer" : "train")
             .set("amp", f.amp)
             .set("batch", options.batch)
             .set("seq", options.seq)
             .set("median_s", median(f.seconds))
             .set("min_s", fastest(f))
             .set("tokens_per_s", static_cast<double>(f.tokens) / f.total_s)
             .set("gflops_per_s", f.flops / f.total_s / 1e9)
             .set("peak_bytes", f.peak_bytes)
             .set("saved_bytes", f.saved_bytes)
             .set("peak_rss_bytes", f.peak_rss_bytes)
             .set("threads", kernels::thread_count())
             .set("isa", config::build_info().instructions)
             .set("parameters", f.parameters)
             .set("dropout", f.dropout)
             .set("clip", f.clip)
             .set("loss", f.loss)
             .set("weights_changed", f.weights_changed)
             .set("losses_xxh3", f.losses_hash)
             .set("weights_xxh3", f.weights_hash)
             .set("system_allocations", f.system_allocations)
             .set("allocations_from_step_3", late < 0 ? Json() : Json(late))
             .set("observer_checks", f.observer_checks)
             .set("observer_check_ns", f.check_s * 1e9)
             .set("observer_share", f.observer_share())
             .set("composed", f.composed)
             .set("fused_rows", profile.fused_rows())
             .set("classes", classes_json(profile))
             .set("floor", floor_json(floor))
             .line() +
         "\n";
}

}  // namespace mixtape::tools
