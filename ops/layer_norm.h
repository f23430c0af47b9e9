// Normalisation of a row, shared by its op and by fused rows.
#pragma once

#include <cmath>

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

// Formulas that tests of the device's loops need too. Internal to each file: called once, they become part of the loop.
namespace {

struct NormalizeRowGrad {
  template <class Lanes, class M>
  MIXTAPE_HD void operator()(const Lanes& lanes, int64_t n, int64_t, M* dx, const M* dy, const M* x, const M* mean,
                             const M* rstd, const M* gamma) const {
    const M mu = *mean, r = *rstd;
    normalize_slope(lanes, n, dx, dy, gamma, r, [&](int64_t i) { return (x[i] - mu) * r; });
  }
};

struct GammaTerm {
  template <class M>
  MIXTAPE_HD M operator()(M dy, M x, M mean, M rstd) const {
    return dy * ((x - mean) * rstd);
  }
};

}  // namespace

/// The output, of shape x, then mean and rstd beside each row; input `gamma` is γ, the next one β.
inline Metas normalized_metas(const Infer& in, const Shape& x, int gamma) {
  const int64_t n = x.back();
  for (const int i : {gamma, gamma + 1}) {
    in.expect(in.shape(i) == Shape{n}, i, message("[", n, "], the size of the rows that are normalised"));
  }
  Shape row = x;
  row[row.rank() - 1] = 1;
  return {{.shape = x, .dtype = in.out()},
          {.shape = row, .dtype = in.wide(), .saved_only = true},
          {.shape = row, .dtype = in.wide(), .saved_only = true}};
}
/// The same where input 0 is x.
inline Metas normalized_metas(const Infer& in, int gamma) {
  in.expect(in.shape(0).rank() >= 1, 0, "at least one axis");
  return normalized_metas(in, in.shape(0), gamma);
}

/// For oracles: normalises one row in place.
inline void normalize_exactly(double* row, const Array& gamma, const Array& beta, double eps) {
  const size_t n = gamma.values.size();
  long double sum = 0, squares = 0;
  for (size_t i = 0; i < n; ++i) sum += row[i];
  const long double mu = sum / static_cast<long double>(n);
  for (size_t i = 0; i < n; ++i) squares += (row[i] - mu) * (row[i] - mu);
  const long double sigma = std::sqrt(squares / static_cast<long double>(n) + eps);
  for (size_t i = 0; i < n; ++i) {
    row[i] = static_cast<double>((row[i] - mu) / sigma * gamma.values[i] + beta.values[i]);
  }
}

}  // namespace mixtape::ops
