// teach accumulate: one sum of many terms, added up in several ways.
#pragma once

#include <optional>

#include "core/tensor.h"
#include "tools/teach/format.h"
#include "tools/trainer/json.h"

namespace mixtape::teach {

struct AccumulateOptions {
  DType dtype = DType::f16;
  int64_t n = 4096;
  double value = 1;     ///< of each term
  bool random = false;  ///< terms uniform in (0, 2·value) instead
  uint64_t seed = 42;
};

/// One way to add up.
struct Method {
  std::string name;
  double sum = 0;
  double relative_error = 0;  ///< against the exact sum of the same terms
  int64_t lost = 0;           ///< terms other than 0 that did not change the sum; 0 where there is no running sum
  std::optional<int64_t> stalled_after;  ///< terms after which nothing changes it any more, at least two of them
  std::vector<double> curve;             ///< the sum after each of Accumulate::at terms; empty for a call of an op
};

struct Accumulate {
  AccumulateOptions options;
  Format format;
  double term = 0;   ///< the value as the format holds it
  double exact = 0;  ///< in f64, of the terms as the format holds them
  std::vector<int64_t> at;
  std::vector<double> exact_curve;
  std::vector<Method> methods;
};

Accumulate accumulate(const AccumulateOptions& options);

std::string accumulate_text(const Accumulate& lesson);
trainer::Json accumulate_json(const Accumulate& lesson);

/// x[0] + x[1] + … of a row, every partial sum rounded to the dtype of x: what a kernel without a wider accumulator
/// does. Rank 0, the dtype of x.
Tensor running_sum(const Tensor& x);

}  // namespace mixtape::teach
