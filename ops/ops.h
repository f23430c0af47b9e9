// The menu: every op as one line. Shapes stand behind; "…" is any number of leading axes, and shapes broadcast as in
// NumPy where two tensors meet. Precision rules are in ops/TABLE.md.
#pragma once

#include "core/tensor.h"

namespace mixtape::ops {

// activations
Tensor gelu(const Tensor& x);  // […] -> […], erf form

// products
Tensor linear(const Tensor& x, const Tensor& weight, const Tensor& bias = {});  // […, in], [out, in], [out] -> […, out]

// rows
Tensor layer_norm(const Tensor& x, const Tensor& gamma, const Tensor& beta, double eps = 1e-12);  // […, n], [n], [n]

}  // namespace mixtape::ops
