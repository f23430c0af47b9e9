// teach layernorm: which of its steps 16 bits cannot hold.
#pragma once

#include "tools/teach/chain.h"

namespace mixtape::teach {

struct LayerNormOptions {
  DType dtype = DType::f16;  ///< f16 or bf16
  int64_t n = 768;           ///< the size of the row
  double mean = 4.7;         ///< of the second chain's row, whose spread is 0.1
  double outlier = 300;      ///< one place of the first chain's row, the others being drawn around 0
  double eps = 1e-12;        ///< of all chains; BERT's
  uint64_t seed = 42;
};

/// Three chains: a large value that is squared, a sum of many, an epsilon that becomes 0.
ChainLesson layernorm_lesson(const LayerNormOptions& options);

}  // namespace mixtape::teach
