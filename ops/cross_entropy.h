// The row formulas of cross_entropy, shared with the tests of the device's loops. Internal to each file that includes
// them: called once, they become part of the loop.
#pragma once

#include "ops/softmax.h"

namespace mixtape::ops {
namespace {

// Against the distribution q = (1 - smoothing)·[i is the target] + smoothing/n.
struct CrossEntropyRow {
  double ignore, smoothing;
  template <class Lanes, class M>
  MIXTAPE_HD void operator()(const Lanes& lanes, int64_t n, int64_t, M* loss, M* log_total, const M* x,
                             const M* target) const {
    const auto value = [&](int64_t i) { return x[i]; };
    const M largest = lanes.max(n, value), log_sum = log_sum_above(lanes, n, largest, value);
    const int64_t t = static_cast<int64_t>(*target);
    M expected = t >= 0 && t < n ? x[t] - largest : static_cast<M>(NAN);  // Σ q·(x - largest)
    if (smoothing > 0) {
      const M mean = lanes.sum(n, [&](int64_t i) { return x[i] - largest; }) / static_cast<M>(n);
      expected += static_cast<M>(smoothing) * (mean - expected);
    }
    *loss = *target == static_cast<M>(ignore) ? M(0) : log_sum - expected;
    *log_total = largest + log_sum;
  }
};
struct CrossEntropyRowGrad {
  double ignore, smoothing;
  template <class Lanes, class M>
  MIXTAPE_HD void operator()(const Lanes& lanes, int64_t n, int64_t, M* dx, const M* dy, const M* x, const M* log_total,
                             const M* target, const M* divisor) const {
    const bool ignored = *target == static_cast<M>(ignore);
    const int32_t t = static_cast<int32_t>(*target);
    const M share = *dy / *divisor, shift = *log_total;
    const M sharp = static_cast<M>(1 - smoothing), flat = static_cast<M>(smoothing) / static_cast<M>(n);
    lanes.each(n, [&](int64_t i) {
      const M q = flat + maths::select(static_cast<int32_t>(i) == t, sharp, M(0));
      dx[i] = maths::select(ignored, M(0), (maths::exp(x[i] - shift) - q) * share);
    });
  }
};

}  // namespace
}  // namespace mixtape::ops
