// The matrix products of a training step, as they are asked for.
#pragma once

#include <vector>

#include "core/kernels/gemm.h"

namespace mixtape::simt_tests {

/// A call of kernels::gemm without its bytes.
struct GemmCall {
  DType dtype, c_dtype;
  Shape a, b, c;
  Strides a_strides, b_strides, c_strides;
  bool bias;
  double alpha;
  bool accumulate;
  friend bool operator==(const GemmCall&, const GemmCall&) = default;
};

struct GemmStep {
  std::vector<GemmCall> calls;     ///< each kind once
  int64_t count = 0;               ///< of all calls
  double operations = 0;           ///< multiplications and additions in them
  double expected_operations = 0;  ///< of the step's ops, by amp/products.h; attention's, which are no gemm, left out
};

/// One step of a small BERT classifier, forward and backward, with dropout and padding: with f32, or under an autocast
/// guard with a 16-bit dtype; of fused rows, or composed.
GemmStep gemm_step_of_bert(DType dtype, bool fused);

}  // namespace mixtape::simt_tests
