// GELU between two linear layers, forward and back, shared with the tests of the device's loops. Internal to each file
// that includes it: called once, it becomes part of the loop.
#pragma once

#include "ops/gelu.h"

namespace mixtape::ops {
namespace {

struct GeluFormula {
  template <class M>
  MIXTAPE_HD M operator()(M u) const {
    return gelu_value(u);
  }
};

/// One pass over the inner layer on the way back: its value again, its slope, and the gradient of its bias.
struct GeluPass {
  template <class Lanes, class M>
  MIXTAPE_HD void operator()(const Lanes& lanes, int64_t n, int64_t, M* h, M* du, M* dbias, const M* u,
                             const M* dh) const {
    lanes.each(n, [&](int64_t i) {
      h[i] = gelu_value(u[i]);
      du[i] = dh[i] * gelu_slope(u[i]);
    });
    lanes.each(n, [&](int64_t i) { dbias[i] += du[i]; });
  }
};

}  // namespace
}  // namespace mixtape::ops
