// gemm: the one door to matrix products. Views carry the layout: a transposed operand is a view with swapped strides.
#pragma once

#include "core/view.h"

namespace mixtape::kernels {

struct GemmOptions {
  View bias = {};           ///< [n], f32 (f64 beside f64), added to every row of c before rounding
  double alpha = 1.0;       ///< factor of the product, applied before rounding
  bool accumulate = false;  ///< c += instead of c =
};

/// c = alpha·a·b (+ bias): a [batch…, m, k], b [batch…, k, n], c [batch…, m, n]. The batch axes of a and b broadcast to
/// those of c. a and b have one float dtype; c has it too, or f32. Products are summed in f32 (f64) and rounded once.
/// f16 operands are converted to f32 first, and so are bf16 ones where the CPU cannot multiply them.
void gemm(const View& a, const View& b, const View& c, const GemmOptions& options = {});

/// The library behind it: "onednn" or "eigen".
const char* gemm_engine();
/// Its version: "2.7.3".
const char* gemm_engine_version();
/// Whether this CPU multiplies bf16 without going through f32.
bool gemm_native_bf16();

}  // namespace mixtape::kernels
