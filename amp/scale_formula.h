// The loss scale's state machine as one formula for both machines: on a GPU the scale is known there alone.
#pragma once

#include "amp/scale_state.h"
#include "core/hd.h"

namespace mixtape::amp {

/// next() (amp/scale_state.h).
MIXTAPE_HD inline ScaleState next_scale(const ScaleOptions& options, const ScaleState& state, bool overflow) {
  if (!options.dynamic) return state;
  ScaleState after = state;
  if (overflow) {
    after.clean = 0;
    after.hysteresis_left = state.hysteresis_left > 1 ? state.hysteresis_left - 1 : 0;
    const double smaller = state.scale * options.backoff;
    if (after.hysteresis_left == 0) after.scale = smaller < options.min ? options.min : smaller;
  } else if (++after.clean >= options.interval) {
    after.clean = 0;
    after.hysteresis_left = options.hysteresis;
    const double larger = state.scale * options.growth;
    after.scale = larger > options.max ? options.max : larger;
  }
  return after;
}

}  // namespace mixtape::amp
