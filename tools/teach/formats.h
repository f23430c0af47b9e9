// teach formats: what each format can hold, and which gradients survive in it under a loss scale.
#pragma once

#include <optional>

#include "tools/teach/format.h"
#include "tools/trainer/json.h"

namespace mixtape::teach {

/// How long a dynamic scale, held in f32, can go one way, by amp::next without its floor and its cap.
struct ScaleWalk {
  double start = 0;
  int64_t backoffs_below_one = 0;
  int64_t backoffs_inverse_inf = 0;  ///< until 1/scale is inf in f32: unscaling makes NaN or inf of everything
  int64_t backoffs_zero = 0;
  int64_t growths_inf = 0;
  int64_t clean_updates_inf = 0;  ///< that these growths take
};
ScaleWalk walk_scale(double start);

/// The true gradients that a format holds when they are multiplied by `scale`.
struct GradientRange {
  double smallest;   ///< that is a number of the format at all
  double underflow;  ///< up to here they become 0
  double overflow;   ///< from here on inf
};
GradientRange gradient_range(const Format& format, double scale);

/// A table, a format a column; with a scale the gradients that survive under it, and its walk.
std::string formats_text(const std::vector<Format>& formats, std::optional<double> scale);
trainer::Json formats_json(const std::vector<Format>& formats, std::optional<double> scale);

}  // namespace mixtape::teach
