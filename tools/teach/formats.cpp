#include "tools/teach/formats.h"

#include <fmt/format.h>

#include <cmath>
#include <functional>
#include <limits>

#include "amp/scale_state.h"

namespace mixtape::teach {
namespace {

/// The scale after each event until `end` says so; it is kept in f32, as on a device.
int64_t count_events(const amp::ScaleOptions& options, bool overflow, const std::function<bool(float)>& end) {
  amp::ScaleState state = amp::first_state(options);
  int64_t events = 0;
  while (!end(static_cast<float>(state.scale))) {
    state = amp::next(options, state, overflow);
    state.scale = static_cast<float>(state.scale);
    ++events;
  }
  return events;
}

/// "2^-14 = 6.10e-05"; whole numbers in full.
std::string power_and_value(double value) {
  const std::string power = power_or_decimal(value);
  const bool whole = std::abs(value) >= 1 && std::abs(value) < 1e9;
  const std::string number = whole ? decimal(value) : fmt::format("{:.2e}", value);
  return power.starts_with("2^") ? power + " = " + number : number;
}

using Cell = std::function<std::string(const Format&)>;

std::string table_line(std::string_view title, const std::vector<Format>& formats, const Cell& cell) {
  std::string out = fmt::format("{:<24}", title);
  for (const Format& format : formats) out += fmt::format("{:<24}", cell(format));
  return out.substr(0, out.find_last_not_of(' ') + 1) + "\n";
}

std::string walk_text(const ScaleWalk& walk) {
  return fmt::format(
      "the scale itself, an fp32 from {} on: {} back-offs until it is below 1, {} until 1/scale is inf,\n"
      "{} until it is 0; {} growths, {} clean updates, until it is inf\n",
      decimal(walk.start), walk.backoffs_below_one, walk.backoffs_inverse_inf, walk.backoffs_zero, walk.growths_inf,
      walk.clean_updates_inf);
}

trainer::Json format_json(const Format& f) {
  return trainer::Json::object()
      .set("name", f.name)
      .set("bits", f.bits)
      .set("exponent_bits", f.exponent_bits)
      .set("fraction_bits", f.fraction_bits)
      .set("bias", f.bias)
      .set("max", f.largest)
      .set("rounds_to_inf", f.overflow)
      .set("min_normal", f.smallest_normal)
      .set("min_subnormal", f.smallest)
      .set("rounds_to_zero", f.underflow)
      .set("epsilon", f.epsilon)
      .set("whole_numbers", f.whole)
      .set("top_ulp", ulp_of(f, f.largest));
}

}  // namespace

ScaleWalk walk_scale(double start) {
  amp::ScaleOptions options;
  options.init = start;
  options.min = 0;
  options.max = std::numeric_limits<double>::infinity();
  ScaleWalk walk;
  walk.start = start;
  walk.backoffs_below_one = count_events(options, true, [](float scale) { return scale < 1; });
  walk.backoffs_inverse_inf = count_events(options, true, [](float scale) { return std::isinf(1 / scale); });
  walk.backoffs_zero = count_events(options, true, [](float scale) { return scale == 0; });
  walk.clean_updates_inf = count_events(options, false, [](float scale) { return std::isinf(scale); });
  walk.growths_inf = walk.clean_updates_inf / options.interval;
  return walk;
}

GradientRange gradient_range(const Format& format, double scale) {
  return {format.smallest / scale, format.underflow / scale, format.overflow / scale};
}

std::string formats_text(const std::vector<Format>& formats, std::optional<double> scale) {
  const auto line = [&](std::string_view title, const Cell& cell) { return table_line(title, formats, cell); };
  std::string out = line("", [](const Format& f) { return std::string(f.name); });
  out += line("bits: sign, exp., frac.",
              [](const Format& f) { return fmt::format("{}: 1, {}, {}", f.bits, f.exponent_bits, f.fraction_bits); });
  out += line("largest", [](const Format& f) { return power_and_value(f.largest); });
  out += line("inf from", [](const Format& f) { return power_and_value(f.overflow); });
  out += line("smallest normal", [](const Format& f) { return power_and_value(f.smallest_normal); });
  out += line("smallest subnormal", [](const Format& f) { return power_and_value(f.smallest); });
  out += line("0 up to", [](const Format& f) { return power_and_value(f.underflow); });
  out += line("epsilon, the ulp of 1", [](const Format& f) { return power_and_value(f.epsilon); });
  out += line("all integers up to", [](const Format& f) { return power_and_value(f.whole); });
  out += line("ulp of the largest", [](const Format& f) { return power_and_value(ulp_of(f, f.largest)); });
  if (!scale) return out;
  const auto gradient = [&](double GradientRange::*end) {
    return [end, s = *scale](const Format& f) { return power_and_value(gradient_range(f, s).*end); };
  };
  out += fmt::format("\ngradients at loss scale {}\n", decimal(*scale));
  out += line("smallest that survives", gradient(&GradientRange::smallest));
  out += line("0 up to", gradient(&GradientRange::underflow));
  out += line("inf from", [&](const Format& f) { return decimal(gradient_range(f, *scale).overflow); });
  return out + "\n" + walk_text(walk_scale(*scale));
}

trainer::Json formats_json(const std::vector<Format>& formats, std::optional<double> scale) {
  trainer::Json rows = trainer::Json::array();
  for (const Format& format : formats) {
    trainer::Json row = format_json(format);
    if (scale) {
      const GradientRange range = gradient_range(format, *scale);
      row.set("gradients", trainer::Json::object()
                               .set("smallest", range.smallest)
                               .set("rounds_to_zero", range.underflow)
                               .set("rounds_to_inf", range.overflow));
    }
    rows.push(std::move(row));
  }
  trainer::Json out = trainer::Json::object().set("formats", std::move(rows));
  if (!scale) return out;
  const ScaleWalk walk = walk_scale(*scale);
  return out.set("scale", trainer::Json::object()
                              .set("start", walk.start)
                              .set("backoffs_below_one", walk.backoffs_below_one)
                              .set("backoffs_inverse_inf", walk.backoffs_inverse_inf)
                              .set("backoffs_zero", walk.backoffs_zero)
                              .set("growths_inf", walk.growths_inf)
                              .set("clean_updates_inf", walk.clean_updates_inf));
}

}  // namespace mixtape::teach
