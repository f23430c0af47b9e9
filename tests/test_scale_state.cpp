#include <doctest/doctest.h>

#include <charconv>
#include <cmath>
#include <random>

#include "amp/grad_scaler.h"
#include "amp/scale_state.h"
#include "core/factory.h"
#include "optim/sgd.h"
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
  int exponent = 16, clean = 0, forgiven = 0, skips = 0;
  void add(bool overflow, const ScaleOptions& options) {
    if (overflow) {
      clean = 0;
      ++skips;
      if (++forgiven >= options.hysteresis) exponent = std::max(0, exponent - 1);
    } else if (++clean == options.interval) {
      clean = forgiven = 0;
      exponent = std::min(24, exponent + 1);
    }
  }
};

ScaleOptions random_options(std::mt19937_64& random) {
  ScaleOptions options;
  options.interval = 1 + static_cast<int64_t>(random() % 6);
  options.hysteresis = 1 + static_cast<int64_t>(random() % 3);
  options.init = std::ldexp(1.0, static_cast<int>(random() % 25));  // near the floor and the cap too
  return options;
}

/// The state as a checkpoint's text has it, read back.
ScaleState through_text(const ScaleState& state) {
  const std::string text = message(state.scale, " ", state.clean, " ", state.hysteresis_left);
  ScaleState out;
  const char* at = text.data();
  const char* const end = at + text.size();
  at = std::from_chars(at, end, out.scale).ptr;
  at = std::from_chars(at + 1, end, out.clean).ptr;
  std::from_chars(at + 1, end, out.hysteresis_left);
  return out;
}

TEST_CASE("F23: 10^6 random patterns agree with the reference, through a saved text at every point") {
  std::mt19937_64 random(1);
  int64_t wrong = 0, skips = 0;
  for (int pattern = 0; pattern < 1'000'000; ++pattern) {
    const ScaleOptions options = random_options(random);
    Reference reference;
    reference.exponent = std::ilogb(options.init);
    ScaleState state = first_state(options);
    uint64_t overflows = random() & random();  // one in four
    const int length = 1 + static_cast<int>(random() % 12);
    for (int i = 0; i < length; ++i, overflows >>= 1) {
      state = next(options, through_text(state), overflows & 1);
      reference.add(overflows & 1, options);
      wrong += state.scale != std::ldexp(1.0, reference.exponent) || state.clean != reference.clean;
    }
    skips += reference.skips;
  }
  CHECK(wrong == 0);
  CHECK(skips > 1'000'000);
}

TEST_CASE("F23: the scaler follows the reference, saved and put into a new one before every round") {
  std::mt19937_64 random(2);
  const Tensor w = from({0}, {1}).set_requires_grad();
  optim::SGD optimizer({{"w", w}}, {.lr = 0});
  const Tensor good = from({1}, {1}), bad = from({INFINITY}, {1});
  int64_t wrong = 0;
  for (int pattern = 0; pattern < 2000; ++pattern) {
    amp::ScalerOptions options;
    options.scale = random_options(random);
    options.max_consecutive_skips = 0;
    Reference reference;
    reference.exponent = std::ilogb(options.scale.init);
    amp::ScalerState state = amp::GradScaler(options).state();
    for (int i = 0; i < 20; ++i) {
      const bool overflow = random() % 4 == 0;
      amp::GradScaler scaler(options);
      scaler.load_state(state);
      w.leaf().gradient = {overflow ? bad : good, 1};
      wrong += scaler.step(optimizer).applied() == overflow;
      scaler.update();
      reference.add(overflow, options.scale);
      state = scaler.state();
      wrong += state.scale.scale != std::ldexp(1.0, reference.exponent) || state.scale.clean != reference.clean;
      wrong += state.skipped_overflow != reference.skips || state.rounds != i + 1;
    }
  }
  CHECK(wrong == 0);
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
