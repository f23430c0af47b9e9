#include "optim/sgd.h"

#include "optim/pass.h"

namespace mixtape::optim {
namespace {

struct PlainFormula {
  double multiplier, rate, decay;

  template <class M>
  MIXTAPE_HD void operator()(const Block<M>& block) const {
    const M scale = static_cast<M>(multiplier), step = static_cast<M>(rate), penalty = static_cast<M>(decay);
    M* __restrict p = block.parameter;
    const M* __restrict raw = block.raw;
    for (int64_t i = 0; i < block.n; ++i) p[i] -= step * (raw[i] * scale + penalty * p[i]);
  }
};

struct MomentumFormula {
  double multiplier, rate, decay, momentum;
  bool nesterov;

  template <class M>
  MIXTAPE_HD void operator()(const Block<M>& block) const {
    const M scale = static_cast<M>(multiplier), step = static_cast<M>(rate), penalty = static_cast<M>(decay),
            keep = static_cast<M>(momentum), look_ahead = nesterov ? keep : M(1), direct = nesterov ? M(1) : M(0);
    M* __restrict p = block.parameter;
    M* __restrict b = block.state[0];
    const M* __restrict raw = block.raw;
    for (int64_t i = 0; i < block.n; ++i) {
      const M g = raw[i] * scale + penalty * p[i];
      b[i] = keep * b[i] + g;
      p[i] -= step * (direct * g + look_ahead * b[i]);
    }
  }
};

struct PlainRule {
  static constexpr const char* name = "SGD";
  MIXTAPE_HD PlainFormula formula(const UpdateFacts& f) const { return {f.multiplier, f.lr, f.weight_decay}; }
};
const RegisterRule<PlainRule> plain_rule;

struct MomentumRule {
  static constexpr const char* name = "SGD with momentum";
  double momentum;
  bool nesterov;
  MIXTAPE_HD MomentumFormula formula(const UpdateFacts& f) const {
    return {f.multiplier, f.lr, f.weight_decay, momentum, nesterov};
  }
};
const RegisterRule<MomentumRule> momentum_rule;

SGDOptions checked(SGDOptions o) {
  if (!(o.momentum >= 0 && o.momentum < 1)) {
    fail(ErrorKind::config, "E-OPTIM-SGD", message("SGD: momentum = ", o.momentum, ": must be in [0, 1)"));
  }
  if (o.nesterov && o.momentum == 0) {
    fail(ErrorKind::config, "E-OPTIM-SGD", "SGD: nesterov looks ahead along the momentum: momentum must be > 0");
  }
  return o;
}

std::vector<std::string> states_of(const SGDOptions& options) {
  if (options.momentum == 0) return {};
  return {"momentum"};
}

}  // namespace

SGD::SGD(const NamedTensors& parameters, SGDOptions options)
    : SGD(default_groups(parameters, options.weight_decay), options) {}
SGD::SGD(std::vector<ParameterGroup> groups, SGDOptions options)
    : Optimizer(std::move(groups), options.lr, states_of(options)), options_(checked(options)) {}

void SGD::update(const Pass& pass) {
  if (options_.momentum == 0) return pass.run(PlainRule{});
  pass.run(MomentumRule{options_.momentum, options_.nesterov});
}

}  // namespace mixtape::optim
