// The first tensor of a step that is not finite, in the order in which the step ran, and what it should have been.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tools/inspect/replay.h"

namespace mixtape::inspect {

enum class TensorKind { parameter, activation, activation_gradient, weight_gradient };
std::string_view name_of(TensorKind kind);  ///< "activation gradient"

/// A text of the batch and its part in what is not finite.
struct SampleShare {
  int64_t row = 0;  ///< of the training split, from 0
  int64_t count = 0;
  double share = 0;  ///< of all such elements
};

struct Culprit {
  TensorKind kind = TensorKind::activation;
  std::string op;         ///< "linear", "linear.backward", "gradient sum", "cast"; "" of a parameter
  std::string scope;      ///< full path of the module: "bert.encoder.layer.0.attention.output.dense"
  std::string tensor;     ///< "output", "gradient of x", or the parameter's name
  std::string fused_in;   ///< the fused row inside which `op` runs; "": it ran by itself
  std::string parameter;  ///< of the op that belongs to it: "….dense.weight"; "": none, or several
  DType dtype = DType::f32;
  int64_t inf = 0, nan = 0, elements = 0;
  /// The largest magnitude, in f64 from the op's own inputs, of an element that is not finite. Absent where the op
  /// cannot be computed again; itself not finite where the formula has no value there.
  std::optional<double> true_value = {};
  int64_t micro_batch = 0;
  std::vector<SampleShare> samples = {};  ///< the largest share first; empty where elements belong to no single text
};

/// Runs the next step of `replay` at this loss scale, without its update. Fused rows that fail are looked into: the
/// step runs once more with the ops that they stand for.
struct Search {
  trainer::StepReport report;
  std::optional<Culprit> culprit;  ///< absent: all was finite
};
Search find_culprit(Replay& replay, double scale);

/// The step at another scale: whether its gradients fit, and how much larger they could be in 16 bits.
struct Trial {
  bool fits = false;
  double headroom = 0;  ///< largest of the format / largest activation gradient; inf without any of 16 bits
};
Trial try_scale(Replay& replay, double scale);

/// The parameters that are not finite themselves.
std::vector<std::string> nonfinite_parameters(const models::BertClassifier& model);

}  // namespace mixtape::inspect
