#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "tools/inspect/collect.h"

namespace mixtape::inspect {
namespace {

using trainer::Json;

constexpr int bin_width = 2;  // exponents in a column
constexpr size_t most_bins = 26;

std::string_view name_of_format(const LowFormat& format) { return format.dtype == DType::f16 ? "fp16" : "bf16"; }

std::string place_text(const Group& group) { return group.place.empty() ? "whole model" : group.place; }

/// "54.1 %"; what is there never reads as 0.
std::string percent_text(int64_t part, int64_t all, int digits = 1) {
  const double share = all == 0 ? 0 : 100 * static_cast<double>(part) / static_cast<double>(all);
  const double unit = std::pow(10.0, -digits);
  if (part > 0 && share < unit / 2) return fmt::format("<{:.{}f} %", unit, digits);
  if (part < all && share > 100 - unit / 2) return fmt::format(">{:.{}f} %", 100 - unit, digits);
  return fmt::format("{:.{}f} %", share, digits);
}

std::string power_text(const std::optional<int>& exponent) { return exponent ? fmt::format("2^{}", *exponent) : "-"; }

std::string number_text(double value) {
  return value == std::floor(value) && std::abs(value) < 1e15 ? fmt::format("{:.0f}", value) : fmt::format("{}", value);
}

bool is_power_of_two(double value) {
  int exponent = 0;
  return std::frexp(value, &exponent) == 0.5;
}

std::string scale_with_power(double scale) {
  return is_power_of_two(scale) ? fmt::format("{} (2^{})", number_text(scale), std::ilogb(scale)) : number_text(scale);
}

std::string fate_line(const std::string& name, const Group& group, const Fate& fate, std::optional<int> headroom) {
  const int64_t n = group.values.count();
  return fmt::format("  {:<24}flush {:>7}   subnormal {:>7}   normal {:>7}   overflow {:>7}   headroom {}\n", name,
                     percent_text(fate.flushed, n), percent_text(fate.subnormal, n), percent_text(fate.normal, n),
                     percent_text(fate.overflow, n, 2), power_text(headroom));
}

/// Columns of two exponents each, from `low` on; what is smaller than all of them is one column more.
struct BinColumns {
  int low = 0;
  size_t count = 0;
  bool has_less = false;
};

BinColumns columns_of(const Histogram& values) {
  const auto even = [](int e) { return e - ((e % bin_width + bin_width) % bin_width); };
  const int first = even(*values.first()), last = even(*values.last());
  const auto all = static_cast<size_t>((last - first) / bin_width + 1);
  const size_t count = std::min(all, most_bins);
  return {.low = last - bin_width * static_cast<int>(count - 1), .count = count, .has_less = count < all};
}

std::string bins_rows(const Group& group, const LowFormat& format) {
  const Histogram& values = group.values;
  if (!values.first()) return "";
  const BinColumns columns = columns_of(values);
  std::string head = "  2^e ", row = "    % ";
  const auto column = [&](const std::string& name, int64_t count) {
    const double share = 100 * static_cast<double>(count) / static_cast<double>(values.count());
    head += fmt::format("{:>5}", name);
    row += fmt::format("{:>5}", count == 0 ? "" : share <= 0.5 ? "." : fmt::format("{:.0f}", share));
  };
  if (columns.has_less) {
    int64_t less = 0;
    for (int e = Histogram::lowest; e < columns.low; ++e) less += values.in_bin(e);
    column("less", less);
  }
  int before = Histogram::lowest - bin_width;
  for (size_t i = 0; i < columns.count; ++i) {
    const int low = columns.low + bin_width * static_cast<int>(i);
    for (const int border : {format.smallest, format.smallest_normal, format.largest + 1}) {
      if (border > before && border <= low && (i > 0 || border == low)) head += " |", row += " |";
    }
    column(message(low), values.in_bin(low) + values.in_bin(low + 1));
    before = low;
  }
  return head + "\n" + row + "\n";
}

std::string group_block(const Collected& step, const Group& group) {
  const Histogram& values = group.values;
  const int64_t n = values.count();
  std::string out =
      fmt::format("{}  {}   n={}   zero {}", name_of(group.what), place_text(group), n, percent_text(values.zero(), n));
  if (values.inf() + values.nan() > 0) out += fmt::format("   inf {}   nan {}", values.inf(), values.nan());
  out += group.place.empty() ? fmt::format("   ({})\n", meaning_of(group.what)) : "\n";
  if (n == 0) return out + "  nothing: the run's policy stores none of them in 16 bits\n";
  const LowFormat& format = step.format;
  out += bins_rows(group, format);
  out += fate_line("without scale:", group, values.fate(format, 0), values.headroom(format, 1));
  if (!is_scaled(group.what) || format.dtype != DType::f16) return out;  // bf16 has the range of f32
  if (step.scale != 1) {
    out += fate_line("at " + scale_with_power(step.scale) + ":", group, group.at_scale,
                     values.headroom(format, step.scale));
  }
  const std::string safe = power_text(values.largest_safe(format)),
                    least = power_text(values.smallest_losing_less(format, tolerated_loss));
  if (group.what == What::wgrad) {  // f32 holds them: they limit no scale of this program
    return out +
           fmt::format("  if they were stored in fp16: safe up to {}, losing < {:.0f} % of what is not 0 from {} on\n",
                       safe, 100 * tolerated_loss, least);
  }
  return out + fmt::format("  largest safe scale now: {}      smallest scale losing < {:.0f} % of what is not 0: {}\n",
                           safe, 100 * tolerated_loss, least);
}

std::string place_table(const Collected& step, What what) {
  size_t width = 12;
  for (const Group& group : step.groups) width = std::max(width, group.place.size());
  std::string out =
      fmt::format("  {:<{}}{:>12}{:>9}{:>9}{:>11}{:>9}{:>10}{:>10}{}\n",
                  is_scaled(what) ? "at " + number_text(step.scale) : "by place", width, "n", "zero", "flush",
                  "subnormal", "normal", "overflow", "largest", is_scaled(what) ? "    safe  < 1 % lost" : "");
  for (const Group& group : step.groups) {
    if (group.what != what || group.place.empty()) continue;
    const int64_t n = group.values.count();
    const Fate& fate = group.at_scale;
    out += fmt::format("  {:<{}}{:>12}{:>9}{:>9}{:>11}{:>9}{:>10}{:>10.2g}", group.place, width, n,
                       percent_text(fate.zero, n), percent_text(fate.flushed, n), percent_text(fate.subnormal, n),
                       percent_text(fate.normal, n), percent_text(fate.overflow, n, 2), group.values.largest());
    if (is_scaled(what)) {
      out += fmt::format("{:>8}{:>12}", power_text(group.values.largest_safe(step.format)),
                         power_text(group.values.smallest_losing_less(step.format, tolerated_loss)));
    }
    out += "\n";
  }
  return out;
}

Json fate_json(const Fate& fate) {
  const auto n = static_cast<double>(std::max<int64_t>(1, fate.count()));
  const auto share = [&](int64_t count) { return static_cast<double>(count) / n; };
  return Json::object()
      .set("flushed", fate.flushed)
      .set("subnormal", fate.subnormal)
      .set("normal", fate.normal)
      .set("overflow", fate.overflow)
      .set("flushed_share", share(fate.flushed))
      .set("subnormal_share", share(fate.subnormal))
      .set("normal_share", share(fate.normal))
      .set("overflow_share", share(fate.overflow))
      .set("lost_share", fate.lost());
}

Json exponent_json(const std::optional<int>& exponent) { return exponent ? Json(*exponent) : Json(); }
Json power_json(const std::optional<int>& exponent) { return exponent ? Json(std::ldexp(1.0, *exponent)) : Json(); }

Json group_json(const Collected& step, const Group& group) {
  const Histogram& values = group.values;
  Json bins = Json::array();
  if (values.first()) {
    for (int e = *values.first(); e <= *values.last(); ++e) {
      bins.push(Json::object().set("exponent", e).set("count", values.in_bin(e)));
    }
  }
  Json out = Json::object()
                 .set("what", name_of(group.what))
                 .set("place", group.place.empty() ? Json() : Json(group.place))
                 .set("n", values.count())
                 .set("zero", values.zero())
                 .set("inf", values.inf())
                 .set("nan", values.nan())
                 .set("largest", values.largest())
                 .set("bins", std::move(bins))
                 .set("unscaled", fate_json(values.fate(step.format, 0)));
  if (!is_scaled(group.what)) return out.set("headroom", exponent_json(values.headroom(step.format, 1)));
  return out.set("scaled", fate_json(group.at_scale))
      .set("headroom", exponent_json(values.headroom(step.format, step.scale)))
      .set("largest_safe_scale", power_json(values.largest_safe(step.format)))
      .set("smallest_scale", power_json(values.smallest_losing_less(step.format, tolerated_loss)));
}

}  // namespace

std::string_view meaning_of(What what) {
  switch (what) {
    case What::wgrad: return "weight gradients; this program keeps them in f32";
    case What::agrad: return "activation gradients that the step stores in 16 bits";
    case What::act: return "op outputs that the step stores in 16 bits; no scale touches them";
    case What::weight: return "parameters; the step reads 16-bit copies of those of products; no scale touches them";
  }
  return "";
}

std::string collected_text(const Collected& step, bool every_place) {
  std::string out = fmt::format(
      "step {}, loss {:.6g}, computed in f32 (amp.dtype {}): a step in 16 bits has lost already what is asked for\n"
      "{} at scale {}, {}\n",
      step.step, step.loss, step.amp, name_of_format(step.format), scale_with_power(step.scale), step.scale_from);
  for (const Group& group : step.groups) {
    if (group.place.empty() || every_place) out += "\n" + group_block(step, group);
    if (group.place.empty() && !every_place && group.values.count() > 0) out += place_table(step, group.what);
  }
  return out;
}

Json collected_json(const Collected& step) {
  Json groups = Json::array();
  for (const Group& group : step.groups) groups.push(group_json(step, group));
  return Json::object()
      .set("step", step.step)
      .set("loss", step.loss)
      .set("computed_in", "f32")
      .set("amp", step.amp)
      .set("format", name_of_format(step.format))
      .set("scale", step.scale)
      .set("scale_from", step.scale_from)
      .set("tolerated_loss", tolerated_loss)
      .set("groups", std::move(groups));
}

}  // namespace mixtape::inspect
