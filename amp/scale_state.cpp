#include "amp/scale_state.h"

#include <cmath>
#include <limits>

#include "amp/scale_formula.h"
#include "core/error.h"

namespace mixtape::amp {

void check(const ScaleOptions& o) {
  const auto expect = [](bool ok, const char* option, double value, const char* range) {
    if (!ok)
      fail(ErrorKind::config, "E-SCALE-OPTIONS", message("loss scale: ", option, " = ", value, ": must be ", range));
  };
  constexpr double smallest = std::numeric_limits<float>::min(), largest = 0x1p126;  // their inverses are f32 normals
  expect(o.init >= smallest && o.init <= largest, "init", o.init, "in [2^-126, 2^126]");
  if (!o.dynamic) return;
  expect(o.growth > 1 && std::isfinite(o.growth), "growth", o.growth, "> 1");
  expect(o.backoff > 0 && o.backoff < 1, "backoff", o.backoff, "in (0, 1)");
  expect(o.interval >= 1, "interval", static_cast<double>(o.interval), ">= 1");
  expect(o.hysteresis >= 1, "hysteresis", static_cast<double>(o.hysteresis), ">= 1");
  expect(o.min >= smallest, "min", o.min, ">= 2^-126");
  expect(o.max <= largest, "max", o.max, "<= 2^126");
  expect(o.min <= o.init && o.init <= o.max, "init", o.init, "between min and max");
}

ScaleState first_state(const ScaleOptions& options) { return {options.init, 0, options.hysteresis}; }

ScaleState next(const ScaleOptions& options, const ScaleState& state, bool overflow) {
  return next_scale(options, state, overflow);
}

}  // namespace mixtape::amp
