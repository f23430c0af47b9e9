// inspect histogram: the magnitudes of one training step, and what 16 bits make of them at a loss scale.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "tools/inspect/at_step.h"
#include "tools/inspect/histogram.h"
#include "tools/trainer/json.h"

namespace mixtape::inspect {

enum class What { wgrad, agrad, act, weight };
inline constexpr What all_kinds[] = {What::wgrad, What::agrad, What::act, What::weight};

std::string_view name_of(What what);     ///< "wgrad", "agrad", "act", "weight"
std::string_view meaning_of(What what);  ///< a line on what these numbers are and how the program keeps them
/// Names with commas between, in their order. Throws E-INSPECT-WHAT (config) for one that is unknown or comes twice.
std::vector<What> parse_what(std::string_view names);
/// A loss scale multiplies gradients and nothing else.
constexpr bool is_scaled(What what) { return what == What::wgrad || what == What::agrad; }

/// Values of one kind from one part of the model.
struct Group {
  What what = What::agrad;
  std::string place;  ///< "bert.encoder.layer.1.*"; "" for the whole model
  Histogram values;
  Fate at_scale;  ///< of the values times the loss scale
};

struct Collected {
  int64_t step = 1;
  double loss = 0;            ///< in f32
  std::string amp;            ///< what the run computes in: "off", "bf16", "fp16"
  LowFormat format;           ///< what the figures ask about
  double scale = 1;           ///< of at_scale
  std::string scale_from;     ///< where it comes from
  std::vector<Group> groups;  ///< of each kind the whole first, then by place in the order of the model
};

struct CollectOptions {
  std::vector<What> what = {std::begin(all_kinds), std::end(all_kinds)};
  std::optional<DType> format;  ///< absent: bf16 where the run uses it, else f16
  std::optional<double> scale;  ///< absent: the run's own, or what one in fp16 would begin with
};

/// Runs the step twice. First in 16 bits under the run's policy, to learn which tensors are stored in them. Then in f32
/// without scale, and counts the true values of those: a step in 16 bits has lost bits already where one looks. Weights
/// and their gradients, which are kept in f32, are counted whole. Throws E-SCALE-OPTIONS (config) for a scale that
/// cannot be.
Collected collect(const PausedStep& step, const CollectOptions& options);

/// `place` of a parameter or scope: up to and with its first number, else its first two words, and ".*".
std::string place_of(std::string_view scope);

/// The share of lost values below which the smallest scale is named.
inline constexpr double tolerated_loss = 0.01;

/// Tables and bins of the whole model, with `every_place` those of its parts too.
std::string collected_text(const Collected& step, bool every_place);
trainer::Json collected_json(const Collected& step);

}  // namespace mixtape::inspect
