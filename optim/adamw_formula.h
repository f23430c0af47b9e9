// AdamW's arithmetic, one formula for both machines. Internal to each file that includes it: called once, it becomes
// part of its loop.
#pragma once

#include "core/hd.h"
#include "core/maths.h"
#include "optim/block.h"
#include "optim/rule.h"

namespace mixtape::optim {
namespace {

struct AdamWFormula {
  double multiplier, beta1, beta2, eps, rate, decay, root2;

  template <class M>
  MIXTAPE_HD void operator()(const Block<M>& block) const {
    const M scale = static_cast<M>(multiplier), keep2 = static_cast<M>(beta2), add1 = static_cast<M>(1 - beta1),
            add2 = static_cast<M>(1 - beta2), floor = static_cast<M>(eps), widen = static_cast<M>(root2);
    M* __restrict p = block.parameter;
    M* __restrict m = block.state[0];
    M* __restrict v = block.state[1];
    const M* __restrict raw = block.raw;
    for (int64_t i = 0; i < block.n; ++i) {
      const M g = raw[i] * scale;
      m[i] += add1 * (g - m[i]);
      v[i] = keep2 * v[i] + add2 * g * g;
      p[i] = moved(p[i], m[i] / (maths::sqrt(v[i]) * widen + floor));
    }
  }
  template <class M>
  MIXTAPE_HD void rest(int64_t n, M* p) const {
    for (int64_t i = 0; i < n; ++i) p[i] = moved(p[i], M(0));
  }
  /// Not p·(1 - decay): 1 - 2e-7 has one digit in f32, none in bf16.
  template <class M>
  MIXTAPE_HD M moved(M p, M direction) const {
    return p - (static_cast<M>(rate) * direction + static_cast<M>(decay) * p);
  }
};

/// What the settings of a step become for one parameter that was updated `steps` times, this step included.
/// MIXTAPE_HD: on a GPU the count of updates is known there alone.
MIXTAPE_HD inline AdamWFormula adamw_formula(double multiplier, double beta1, double beta2, double eps, double lr,
                                             double weight_decay, int64_t steps) {
  const double count = static_cast<double>(steps);
  const double correction1 = 1 - ::pow(beta1, count), correction2 = 1 - ::pow(beta2, count);
  return {multiplier, beta1, beta2, eps, lr / correction1, lr * weight_decay, 1 / ::sqrt(correction2)};
}

struct AdamWRule {
  static constexpr const char* name = "AdamW";
  double beta1, beta2, eps;
  MIXTAPE_HD AdamWFormula formula(const UpdateFacts& f) const {
    return adamw_formula(f.multiplier, beta1, beta2, eps, f.lr, f.weight_decay, f.steps);
  }
};

}  // namespace
}  // namespace mixtape::optim
