// A formula step by step in three arithmetics: a 16-bit format, f32 and f64. What softmax and layernorm are taught
// with.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "core/tensor.h"
#include "tools/teach/format.h"
#include "tools/trainer/json.h"

namespace mixtape::teach {

struct NamedResult {
  std::string name;
  Tensor tensor;
};
/// All intermediate results of a formula, in the dtype of its input.
using Formula = std::function<std::vector<NamedResult>(const Tensor& x)>;

enum class Fault { none, overflow, underflow, rounding };
std::string_view name_of(Fault fault);

/// One intermediate result. An error is the largest difference to f64 against the largest magnitude there, and inf
/// where something is not finite that should be.
struct ChainStep {
  std::string name;
  double low = 0, f32 = 0, exact = 0;  ///< at the element where the 16-bit result is worst
  double low_error = 0, f32_error = 0;
  /// What is wrong in 16 bits: inf or NaN, 0 for a number too small to be one, or an error of more than eight epsilon.
  Fault fault = Fault::none;
};

/// What the program itself does with the same input: an op under autocast.
struct ChainOp {
  std::string name;
  std::string rule;  ///< its row of the op table
  double error = 0;  ///< as above, against the last step in f64
};

struct Chain {
  std::string title;
  std::vector<ChainStep> steps;
  ChainOp op;
  /// The first step with a fault; absent when there is none.
  std::optional<size_t> first_wrong() const;
};

/// A lesson: several chains under one format.
struct ChainLesson {
  Format format;
  std::vector<Chain> chains;
};

/// Runs `formula` on x, which is in 16 bits, as it is and widened to f32 and f64, without autocast: every intermediate
/// result is rounded to the dtype it runs in. Then `op`, a call of the row `op_name`, under autocast.
Chain run_chain(std::string title, const Tensor& x, const Formula& formula, std::string_view op_name,
                const std::function<Tensor(const Tensor& x)>& op);

/// A 16-bit format. Throws E-TEACH-FORMAT for fp32 too, with which the lesson compares it.
Format parse_low_format(std::string_view name);

std::string chain_text(const ChainLesson& lesson);
/// `head` takes the members "dtype" and "lessons".
trainer::Json chain_json(const ChainLesson& lesson, trainer::Json head);

}  // namespace mixtape::teach
