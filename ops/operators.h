// + − * / on tensors. A host number becomes a tensor of the other operand's dtype, so that it never promotes: in half,
// 1 + 0.0001 is 1. A number that this dtype cannot hold is reported once.
#pragma once

#include "core/factory.h"
#include "ops/ops.h"
#include "ops/scalar.h"

namespace mixtape {

namespace ops::detail {
inline Tensor beside(const Tensor& tensor, double value, std::string_view op) {
  report_lost_scalar(op, "scalar", value, tensor.dtype());
  return full({}, value, tensor.dtype(), tensor.device());
}
}  // namespace ops::detail

inline Tensor operator+(const Tensor& a, const Tensor& b) { return ops::add(a, b); }
inline Tensor operator-(const Tensor& a, const Tensor& b) { return ops::sub(a, b); }
inline Tensor operator*(const Tensor& a, const Tensor& b) { return ops::mul(a, b); }
inline Tensor operator/(const Tensor& a, const Tensor& b) { return ops::div(a, b); }
inline Tensor operator-(const Tensor& x) { return ops::neg(x); }

inline Tensor operator+(const Tensor& a, double b) { return ops::add(a, ops::detail::beside(a, b, "add")); }
inline Tensor operator-(const Tensor& a, double b) { return ops::sub(a, ops::detail::beside(a, b, "sub")); }
inline Tensor operator*(const Tensor& a, double b) { return ops::mul(a, ops::detail::beside(a, b, "mul")); }
inline Tensor operator/(const Tensor& a, double b) { return ops::div(a, ops::detail::beside(a, b, "div")); }
inline Tensor operator+(double a, const Tensor& b) { return ops::add(ops::detail::beside(b, a, "add"), b); }
inline Tensor operator-(double a, const Tensor& b) { return ops::sub(ops::detail::beside(b, a, "sub"), b); }
inline Tensor operator*(double a, const Tensor& b) { return ops::mul(ops::detail::beside(b, a, "mul"), b); }
inline Tensor operator/(double a, const Tensor& b) { return ops::div(ops::detail::beside(b, a, "div"), b); }

}  // namespace mixtape
