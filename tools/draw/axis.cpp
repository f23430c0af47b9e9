#include "tools/draw/axis.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "tools/config/json_text.h"

namespace mixtape::draw {
namespace {

/// A distance of the form 1, 2 or 5 times a power of ten, so that about `parts` of them fill the range.
double nice_step(double range, int parts) {
  const double raw = range / parts, power = std::pow(10.0, std::floor(std::log10(raw)));
  for (const double factor : {1.0, 2.0, 5.0}) {
    if (raw <= factor * power) return factor * power;
  }
  return 10 * power;
}

/// The value in which an axis is divided evenly: itself, or its logarithm. NaN where it has none.
double even(const Axis& axis, double value) {
  if (axis.kind == AxisKind::log2) return value > 0 ? std::log2(value) : std::numeric_limits<double>::quiet_NaN();
  return value;
}

}  // namespace

Axis Axis::of_names(std::string title, std::vector<std::string> names) {
  const double count = static_cast<double>(names.size());
  return {std::move(title), 0, count, AxisKind::names, std::move(names)};
}

Axis Axis::around(std::string title, const std::vector<double>& values, AxisKind kind) {
  Axis out{std::move(title), 1, 1, kind};
  bool any = false;
  for (const double value : values) {
    if (!std::isfinite(value) || !std::isfinite(even(out, value))) continue;
    out.low = any ? std::min(out.low, value) : value;
    out.high = any ? std::max(out.high, value) : value;
    any = true;
  }
  if (kind != AxisKind::linear) {
    if (out.low == out.high) out.high = out.low * 2;
    return out;
  }
  const double room = out.low == out.high ? std::max(1e-9, std::abs(out.low) * 1e-3) : (out.high - out.low) * 0.05;
  out.low -= room;
  out.high += room;
  return out;
}

double share_of(const Axis& axis, double value) {
  const double low = even(axis, axis.low), high = even(axis, axis.high);
  const double share = (even(axis, value) - low) / (high - low);
  return std::isfinite(share) ? share : std::numeric_limits<double>::quiet_NaN();
}

std::vector<Tick> ticks(const Axis& axis, int parts) {
  std::vector<Tick> out;
  if (axis.kind == AxisKind::names) {
    const double count = static_cast<double>(axis.names.size());
    for (size_t i = 0; i < axis.names.size(); ++i)
      out.push_back({(static_cast<double>(i) + 0.5) / count, axis.names[i]});
    return out;
  }
  const double low = even(axis, axis.low), high = even(axis, axis.high);
  const bool logarithmic = axis.kind != AxisKind::linear;
  const double step = logarithmic ? std::max(1.0, nice_step(high - low, 8)) : nice_step(high - low, parts);
  const double slack = (high - low) * 1e-9;
  for (double k = std::ceil((low - slack) / step); k * step <= high + slack; ++k) {
    const double at = k == 0 ? 0 : k * step;  // of what is below 0 ceil makes -0
    out.push_back({(at - low) / (high - low), logarithmic ? fmt::format("2^{:.0f}", at) : fmt::format("{:.7g}", at)});
  }
  return out;
}

std::string escaped(std::string_view text) {
  std::string out;
  for (size_t i = 0; i < text.size();) {
    const size_t length = config::utf8_length(text.substr(i));
    if (length > 1) {
      out.append(text.substr(i, length));
    } else if (length == 0) {
      out += "\xEF\xBF\xBD";
    } else {
      switch (const char c = text[i]) {
        case '&': out += "&amp;"; break;
        case '<': out += "&lt;"; break;
        case '>': out += "&gt;"; break;
        case '"': out += "&quot;"; break;
        default: out += static_cast<unsigned char>(c) < ' ' || c == '\x7f' ? ' ' : c;
      }
    }
    i += std::max<size_t>(length, 1);
  }
  return out;
}

}  // namespace mixtape::draw
