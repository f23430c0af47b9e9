// The row formulas of embed_layer_norm, shared with the tests of the device's loops. Internal to each file that
// includes them: called once, they become part of the loop.
#pragma once

#include "ops/dropout.h"
#include "ops/layer_norm.h"

namespace mixtape::ops {
namespace {

/// z = word + type + position, one place, in the order of the composed ops.
struct ThreeRows {
  template <class M>
  MIXTAPE_HD M operator()(M word, M type, M position) const {
    return word + type + position;
  }
};

struct NormalizeThreeRows {
  ThreeRows sum;
  NormalizeRow normalize;
  DropoutFormula keep;
  template <class Lanes, class M>
  MIXTAPE_HD void operator()(const Lanes& lanes, int64_t n, int64_t row, M* y, M* mean, M* rstd, const M* word,
                             const M* type, const M* position, const M* gamma, const M* beta, const M* draw) const {
    lanes.each(n, [&](int64_t i) { y[i] = sum(word[i], type[i], position[i]); });
    normalize(lanes, n, row, y, mean, rstd, y, gamma, beta);
    if (draw) lanes.each(n, [&](int64_t i) { y[i] = keep(y[i], draw[i]); });
  }
};

struct NormalizeThreeRowsGrad {
  ThreeRows sum;
  DropoutFormula keep;
  template <class Lanes, class M>
  MIXTAPE_HD void operator()(const Lanes& lanes, int64_t n, int64_t, M* dz, M* kept, M* dgamma, M* dbeta, const M* dy,
                             const M* word, const M* type, const M* position, const M* mean, const M* rstd,
                             const M* gamma, const M* draw) const {
    const M mu = *mean, scale = *rstd;
    lanes.each(n, [&](int64_t i) { kept[i] = draw ? keep(dy[i], draw[i]) : dy[i]; });
    lanes.each(n, [&](int64_t i) { dz[i] = (sum(word[i], type[i], position[i]) - mu) * scale; });  // the normalised z
    lanes.each(n, [&](int64_t i) {
      dgamma[i] += kept[i] * dz[i];
      dbeta[i] += kept[i];
    });
    normalize_slope(lanes, n, dz, kept, gamma, scale, [&](int64_t i) { return dz[i]; });
  }
};

}  // namespace
}  // namespace mixtape::ops
