// teach softmax: which of its steps 16 bits cannot hold.
#pragma once

#include "tools/teach/chain.h"

namespace mixtape::teach {

struct SoftmaxOptions {
  DType dtype = DType::f16;                  ///< f16 or bf16
  std::vector<double> scores = {-8, 2, 12};  ///< of the first and the last chain
  int64_t n = 4096;                          ///< of the second: scores drawn around 0
  double spread = 0.1;                       ///< their standard deviation
  uint64_t seed = 42;
};

/// Three chains: exp without subtracting the maximum, a sum of many, the logarithm of a small probability.
ChainLesson softmax_lesson(const SoftmaxOptions& options);

}  // namespace mixtape::teach
