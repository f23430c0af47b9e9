// The loss scale as a pure state machine: next(state, overflow) -> state.
#pragma once

#include <cstdint>

namespace mixtape::amp {

struct ScaleOptions {
  bool dynamic = true;   ///< false: the scale stays `init`
  double init = 65536;   ///< 2^16
  double growth = 2;     ///< > 1, after `interval` clean updates
  double backoff = 0.5;  ///< in (0, 1), at an overflow
  int64_t interval = 2000;
  double min = 1;
  double max = 16777216;   ///< 2^24
  int64_t hysteresis = 1;  ///< overflows, since the scale last grew, from which on it shrinks: 1 means at the first
};

struct ScaleState {
  double scale = 65536;
  int64_t clean = 0;            ///< updates since the last overflow or growth
  int64_t hysteresis_left = 1;  ///< overflows that are still forgiven, plus one
  friend bool operator==(const ScaleState&, const ScaleState&) = default;
};

/// Throws E-SCALE-OPTIONS (kind config) naming the option and its range. Also a static scale must lie within f32: its
/// inverse would be inf in f32 otherwise.
void check(const ScaleOptions& options);

ScaleState first_state(const ScaleOptions& options);

/// The state after an update without overflow, or after a skipped one. Micikevicius et al., "Mixed precision training"
/// (2018).
ScaleState next(const ScaleOptions& options, const ScaleState& state, bool overflow);

}  // namespace mixtape::amp
