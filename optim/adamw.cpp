#include "optim/adamw.h"

#include <cmath>

#include "optim/adamw_formula.h"
#include "optim/pass.h"

namespace mixtape::optim {
namespace {

const RegisterRule<AdamWRule> adamw_rule;

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

void AdamW::update(const Pass& pass) { pass.run(AdamWRule{options_.beta1, options_.beta2, options_.eps}); }

}  // namespace mixtape::optim
