#include <doctest/doctest.h>

#include <cmath>
#include <random>

#include "amp/scale_state.h"
#include "tests/shared.h"

namespace mixtape {
namespace {

using amp::first_state;
using amp::next;
using amp::ScaleOptions;
using amp::ScaleState;

ScaleState after(const ScaleOptions& options, ScaleState state, int times, bool overflow) {
  for (int i = 0; i < times; ++i) state = next(options, state, overflow);
  return state;
}

TEST_CASE("the scale doubles after 2,000 clean updates, counted anew after each overflow") {
  const ScaleOptions options;
  ScaleState state = first_state(options);
  CHECK(state.scale == 65536);
  state = after(options, state, 1999, false);
  CHECK(state.scale == 65536);
  CHECK(state.clean == 1999);
  CHECK(next(options, state, false) == ScaleState{131072, 0, 1});
  state = next(options, state, true);
  CHECK(state == ScaleState{32768, 0, 0});
  CHECK(after(options, state, 2000, false) == ScaleState{65536, 0, 1});
}

TEST_CASE("it never falls below the floor and never rises above the cap") {
  const ScaleOptions options;
  CHECK(after(options, first_state(options), 16, true).scale == 1);
  CHECK(after(options, first_state(options), 200, true).scale == 1);
  CHECK(after(options, first_state(options), 2000 * 8, false).scale == 16777216);
  CHECK(after(options, first_state(options), 2000 * 120, false).scale == 16777216);
  ScaleOptions low;
  low.min = 0x1p-100;
  CHECK(after(low, first_state(low), 17, true).scale == 0.5);
  CHECK(1 / after(low, first_state(low), 500, true).scale < std::numeric_limits<float>::max());
}

TEST_CASE("hysteresis forgives that many overflows less one, and is filled up when the scale grows") {
  ScaleOptions options;
  options.hysteresis = 3;
  options.interval = 10;
  ScaleState state = first_state(options);
  state = after(options, state, 2, true);
  CHECK(state.scale == 65536);
  state = next(options, state, true);
  CHECK(state.scale == 32768);
  state = next(options, state, true);
  CHECK(state.scale == 16384);
  state = after(options, state, 10, false);
  CHECK(state == ScaleState{32768, 0, 3});
}

TEST_CASE("a static scale stays") {
  ScaleOptions options;
  options.dynamic = false;
  options.init = 1024;
  CHECK(after(options, first_state(options), 10, true) == first_state(options));
  CHECK(after(options, first_state(options), 5000, false) == first_state(options));
}

// The same rules from the counts of a history, not from a state: the scale is replayed as an exponent.
struct Reference {
  int exponent = 16, clean = 0, forgiven = 0;
  void add(bool overflow, int interval, int hysteresis) {
    if (overflow) {
      clean = 0;
      if (++forgiven >= hysteresis) exponent = std::max(0, exponent - 1);
    } else if (++clean == interval) {
      clean = forgiven = 0;
      exponent = std::min(24, exponent + 1);
    }
  }
};

TEST_CASE("a million random patterns agree with the reference, through a copy of the state at every point") {
  std::mt19937_64 random(1);
  int64_t steps = 0;
  while (steps < 1'000'000) {
    ScaleOptions options;
    options.interval = 1 + static_cast<int64_t>(random() % 40);
    options.hysteresis = 1 + static_cast<int64_t>(random() % 3);
    const uint64_t rarity = 1 + random() % 60;
    ScaleState state = first_state(options);
    Reference reference;
    bool same = true;
    for (int i = 0; i < 500; ++i, ++steps) {
      const bool overflow = random() % rarity == 0;
      const ScaleState copy{state.scale, state.clean, state.hysteresis_left};
      state = next(options, copy, overflow);
      reference.add(overflow, static_cast<int>(options.interval), static_cast<int>(options.hysteresis));
      same = same && state.scale == std::ldexp(1.0, reference.exponent) && state.clean == reference.clean;
    }
    REQUIRE(same);
  }
}

TEST_CASE("options outside their ranges are refused by name") {
  const auto refused = [](auto change) {
    ScaleOptions options;
    change(options);
    return tests::error_text([&] { check(options); });
  };
  CHECK(refused([](ScaleOptions&) {}) == "no error");
  CHECK(refused([](ScaleOptions& o) { o.growth = 1; }) == "E-SCALE-OPTIONS: loss scale: growth = 1: must be > 1");
  CHECK(refused([](ScaleOptions& o) { o.backoff = 1; }).find("backoff = 1: must be in (0, 1)") != std::string::npos);
  CHECK(refused([](ScaleOptions& o) { o.backoff = 0; }).find("backoff") != std::string::npos);
  CHECK(refused([](ScaleOptions& o) { o.interval = 0; }).find("interval") != std::string::npos);
  CHECK(refused([](ScaleOptions& o) { o.hysteresis = 0; }).find("hysteresis") != std::string::npos);
  CHECK(refused([](ScaleOptions& o) { o.min = 0; }).find("min") != std::string::npos);
  CHECK(refused([](ScaleOptions& o) { o.max = INFINITY; }).find("max") != std::string::npos);
  CHECK(refused([](ScaleOptions& o) { o.init = 0.5; }).find("init = 0.5: must be between min and max") !=
        std::string::npos);
  CHECK(refused([](ScaleOptions& o) { o.init = NAN; }).find("init") != std::string::npos);
  CHECK(refused([](ScaleOptions& o) { o.dynamic = false, o.init = 0; }).find("init") != std::string::npos);
}

}  // namespace
}  // namespace mixtape
