// Two dtypes in lockstep: the same start and the same batches, the distance after each step, and the first op whose own
// error is larger than it may be.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "tools/inspect/op_error.h"
#include "tools/inspect/replay.h"
#include "tools/trainer/json.h"

namespace mixtape::inspect {

struct CompareOptions {
  std::string a = "fp32", b = "fp16";  ///< fp32 (or off), bf16, fp16
  int64_t steps = 10;
  int64_t check_every = 1;  ///< ops of b are looked at in every so many steps, from the first; 0: never
  bool composed = false;    ///< every op by itself: what the fused rows stand for
};

struct CompareStep {
  int64_t step = 0;
  double loss_a = 0, loss_b = 0;
  double gap() const { return loss_b - loss_a; }
  std::string outcome_a = {}, outcome_b = {};
  double cosine = 0;                 ///< of all gradients; NaN where one of them is not finite or zero
  std::vector<double> cosines = {};  ///< the same by layer
};

/// How far b's activations are from a's by then, through all ops before.
struct Accumulated {
  std::string layer;
  double first = 0, last = 0;  ///< ‖b - a‖ / ‖a‖ of the layer's last activation, in the first and in the last step
};

struct Comparison {
  std::string a, b, policy;
  std::vector<std::string> layers;
  std::vector<CompareStep> steps = {};
  int64_t forward_calls = 0, backward_calls = 0;  ///< of b that were compared with their exact results
  std::optional<OpError> outside = {};            ///< the first that was outside its bound, in the order of execution
  int64_t outside_step = 0;
  std::optional<OpError> overflow =
      {};  ///< the first result that b's format could not hold: inf where f64 has a number
  int64_t overflow_step = 0;
  std::optional<OpError> closest = {};  ///< of all, the one that used most of its bound
  std::vector<Accumulated> accumulated = {};
};

/// Throws E-REPLAY-STEP (config) for more steps than the configuration's run has, and what reading a configuration's
/// data and making its model throws.
Comparison compare(const std::string& file, const std::vector<std::string>& sets, const CompareOptions& options,
                   trainer::Progress& progress);

/// The part of the model that a parameter or a scope belongs to: "embeddings", "encoder.layer.3", "classifier".
std::string layer_of(const std::string& path);

std::string comparison_text(const Comparison& comparison);
trainer::Json comparison_json(const Comparison& comparison);

}  // namespace mixtape::inspect
