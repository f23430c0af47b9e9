// The row formulas of dropout_add_layer_norm, shared with the tests of the device's loops. Internal to each file that
// includes them: called once, they become part of the loop.
#pragma once

#include "ops/dropout.h"
#include "ops/layer_norm.h"

namespace mixtape::ops {
namespace {

/// z = dropout(x) + residual, one place.
struct Sum {
  DropoutFormula keep;
  template <class M>
  MIXTAPE_HD M operator()(M x, M residual, M draw) const {
    return keep(x, draw) + residual;
  }
};

struct NormalizeSum {
  Sum sum;
  NormalizeRow normalize;
  template <class Lanes, class M>
  MIXTAPE_HD void operator()(const Lanes& lanes, int64_t n, int64_t row, M* y, M* mean, M* rstd, const M* x, const M* r,
                             const M* gamma, const M* beta, const M* draw) const {
    lanes.each(n, [&](int64_t i) { y[i] = sum(x[i], r[i], draw[i]); });
    normalize(lanes, n, row, y, mean, rstd, y, gamma, beta);
  }
};

struct NormalizeSumGrad {  // and what becomes of dz on its two ways
  Sum sum;
  template <class Lanes, class M>
  MIXTAPE_HD void operator()(const Lanes& lanes, int64_t n, int64_t, M* dx, M* dr, M* dgamma, M* dbeta, const M* dy,
                             const M* x, const M* r, const M* mean, const M* rstd, const M* gamma,
                             const M* draw) const {
    const M mu = *mean, scale = *rstd;
    lanes.each(n, [&](int64_t i) { dr[i] = (sum(x[i], r[i], draw[i]) - mu) * scale; });  // the normalised z
    lanes.each(n, [&](int64_t i) {
      dgamma[i] += dy[i] * dr[i];
      dbeta[i] += dy[i];
    });
    normalize_slope(lanes, n, dr, dy, gamma, scale, [&](int64_t i) { return dr[i]; });
    lanes.each(n, [&](int64_t i) { dx[i] = sum.keep(dr[i], draw[i]); });
  }
};

}  // namespace
}  // namespace mixtape::ops
