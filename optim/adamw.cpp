#include "optim/adamw.h"

#include <cmath>

#include "optim/pass.h"

namespace mixtape::optim {
namespace {

struct AdamWFormula {
  double multiplier, beta1, beta2, eps, rate, decay, root2;

  template <class M>
  void operator()(const Block<M>& block) const {
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
  void rest(int64_t n, M* p) const {
    for (int64_t i = 0; i < n; ++i) p[i] = moved(p[i], M(0));
  }
  /// Not p·(1 - decay): 1 - 2e-7 has one digit in f32, none in bf16.
  template <class M>
  M moved(M p, M direction) const {
    return p - (static_cast<M>(rate) * direction + static_cast<M>(decay) * p);
  }
};

AdamWOptions checked(AdamWOptions o) {
  const auto refuse = [](const char* key, double value, const char* range) {
    fail(ErrorKind::config, "E-OPTIM-ADAMW", message("AdamW: ", key, " = ", value, ": must be ", range));
  };
  if (!(o.beta1 >= 0 && o.beta1 < 1)) refuse("beta1", o.beta1, "in [0, 1)");
  if (!(o.beta2 >= 0 && o.beta2 < 1)) refuse("beta2", o.beta2, "in [0, 1)");
  // An eps that is 0 in f32 would turn a zero gradient into 0/0.
  if (!(static_cast<float>(o.eps) > 0 && std::isfinite(o.eps))) refuse("eps", o.eps, "finite and > 0, also in f32");
  return o;
}

}  // namespace

AdamW::AdamW(const NamedTensors& parameters, AdamWOptions options)
    : AdamW(default_groups(parameters, options.weight_decay), options) {}
AdamW::AdamW(std::vector<ParameterGroup> groups, AdamWOptions options)
    : Optimizer(std::move(groups), options.lr, {"exp_avg", "exp_avg_sq"}), options_(checked(options)) {}

void AdamW::update(Slot& slot, const Gradient& gradient, double lr) {
  const double steps = static_cast<double>(slot.steps);
  const double correction1 = 1 - std::pow(options_.beta1, steps), correction2 = 1 - std::pow(options_.beta2, steps);
  update_pass(slot.parameter, gradient, slot.states, slot.moments,
              AdamWFormula{gradient.multiplier, options_.beta1, options_.beta2, options_.eps, lr / correction1,
                           lr * slot.weight_decay, 1 / std::sqrt(correction2)},
              storing(slot));
}

}  // namespace mixtape::optim
