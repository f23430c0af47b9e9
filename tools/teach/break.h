// teach break: one mechanism of mixed precision switched off, and what training makes of that. Each is a fault that
// public projects had (tests/CASES.md has the numbers of the cases).
#pragma once

#include <span>
#include <string>
#include <string_view>

#include "tools/teach/break_train.h"
#include "tools/trainer/json.h"

namespace mixtape::teach {

enum class Break : uint8_t {
  no_master,
  no_scale,
  fixed_scale,
  clip_before_unscale,
  softmax_fp16,
  sum_in_fp16,
  double_sigmoid,
};

/// What stands fixed about a lesson.
struct BreakFacts {
  Break what;
  std::string_view name;                   ///< "no-master": the option without its dashes
  std::string_view about;                  ///< one line
  std::string_view setting;                ///< what is trained, and why this shows the fault
  std::string_view story;                  ///< where it happened
  std::string_view file, function, heals;  ///< of the framework: what keeps the fault away, and how
};
/// All of them, in the order of Break.
std::span<const BreakFacts> break_facts();

struct BreakOptions {
  Break what = Break::no_master;
  uint64_t seed = 42;
  double scale = 1e9;  ///< of fixed_scale: the scale, in f32's range
};

struct BreakLesson {
  BreakOptions options;
  BreakRun off, on;  ///< without the mechanism, and with it
  const BreakFacts& facts() const { return break_facts()[static_cast<size_t>(options.what)]; }
};
/// Trains twice. Throws E-SCALE-OPTIONS (config) for a scale that cannot be one.
BreakLesson break_lesson(const BreakOptions& options);

/// The two trainings of a lesson; they differ in its mechanism alone.
struct RecipePair {
  Recipe off, on;
};
RecipePair break_recipes(const BreakOptions& options);

/// The sentences that say, in numbers, what the two runs show.
std::string break_seen(const BreakLesson& lesson);
std::string break_text(const BreakLesson& lesson);
trainer::Json break_json(const BreakLesson& lesson);

/// What there is to break: a line each.
std::string breaks_text();
trainer::Json breaks_json();

/// Two curves as text, x and o, * where they meet; ! is a place that is not finite, above all others.
std::string two_curves(const std::vector<double>& x, const std::vector<double>& o);

/// Mean of the first or the last ten losses.
double first_loss(const BreakRun& run);
double last_loss(const BreakRun& run);

}  // namespace mixtape::teach
