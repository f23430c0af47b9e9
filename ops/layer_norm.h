// Normalisation of a row, shared by its op and by fused rows.
#pragma once

#include "core/kernels/loops.h"
#include "core/op.h"

namespace mixtape::ops {

/// y = (x - mean)·rstd·γ + β, and both statistics; y may be x itself.
struct NormalizeRow {
  double eps;
  template <class Lanes, class M>
  MIXTAPE_HD void operator()(const Lanes& lanes, int64_t n, int64_t, M* y, M* mean, M* rstd, const M* x, const M* gamma,
                             const M* beta) const {
    // Two passes: the mean of squares minus the squared mean would cancel (x = 1000 + {0, 1}).
    const M mu = lanes.sum(n, [&](int64_t i) { return x[i]; }) / static_cast<M>(n);
    const M var = lanes.sum(n, [&](int64_t i) { return (x[i] - mu) * (x[i] - mu); }) / static_cast<M>(n);
    const M r = maths::rsqrt(var + static_cast<M>(eps));
    lanes.each(n, [&](int64_t i) { y[i] = (x[i] - mu) * r * gamma[i] + beta[i]; });
    *mean = mu;
    *rstd = r;
  }
};

/// dx = rstd·(g - mean(g) - x̂·mean(g·x̂)) with g = dy·γ and x̂ = normalized(i); x̂ may be read from dx.
template <class Lanes, class M, class Normalized>
MIXTAPE_HD void normalize_slope(const Lanes& lanes, int64_t n, M* dx, const M* dy, const M* gamma, M rstd,
                                const Normalized& normalized) {
  const M count = static_cast<M>(n);
  const M g = lanes.sum(n, [&](int64_t i) { return dy[i] * gamma[i]; }) / count;
  const M gx = lanes.sum(n, [&](int64_t i) { return dy[i] * gamma[i] * normalized(i); }) / count;
  lanes.each(n, [&](int64_t i) { dx[i] = rstd * (dy[i] * gamma[i] - g - normalized(i) * gx); });
}

/// The output, then mean and rstd beside each row; input `gamma` is γ, the next one β.
inline Metas normalized_metas(const Infer& in, int gamma) {
  in.expect(in.shape(0).rank() >= 1, 0, "at least one axis");
  const int64_t n = in.shape(0).back();
  in.expect(in.shape(gamma) == Shape{n}, gamma, message("[", n, "], the size of the last axis of x"));
  in.expect(in.shape(gamma + 1) == Shape{n}, gamma + 1, message("[", n, "], the size of the last axis of x"));
  Shape row = in.shape(0);
  row[row.rank() - 1] = 1;
  return {{.shape = in.shape(0), .dtype = in.out()},
          {.shape = row, .dtype = in.wide(), .saved_only = true},
          {.shape = row, .dtype = in.wide(), .saved_only = true}};
}

}  // namespace mixtape::ops
