// The Eigen form of a product, for the two files that use it.
#pragma once

#include <Eigen/Core>

#include "core/kernels/gemm_engine.h"

namespace mixtape::kernels::engine {

template <class T>
void multiply_by_eigen(const Product<T>& p) {
  using Matrix = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
  using Transposed = Eigen::Matrix<T, Eigen::Dynamic, Eigen::Dynamic, Eigen::ColMajor>;
  using Stride = Eigen::OuterStride<>;
  Eigen::Map<Matrix, 0, Stride> c(p.c, p.m, p.n, Stride(p.ldc));
  if (p.beta == T(0))
    c.setZero();
  else if (p.beta != T(1))
    c *= p.beta;
  const auto add = [&](const auto& a, const auto& b) { c.noalias() += p.alpha * (a * b); };
  const auto with_b = [&](const auto& a) {
    if (!p.b_transposed)
      add(a, Eigen::Map<const Matrix, 0, Stride>(p.b, p.k, p.n, Stride(p.ldb)));
    else
      add(a, Eigen::Map<const Transposed, 0, Stride>(p.b, p.k, p.n, Stride(p.ldb)));
  };
  if (!p.a_transposed)
    with_b(Eigen::Map<const Matrix, 0, Stride>(p.a, p.m, p.k, Stride(p.lda)));
  else
    with_b(Eigen::Map<const Transposed, 0, Stride>(p.a, p.m, p.k, Stride(p.lda)));
}

}  // namespace mixtape::kernels::engine
