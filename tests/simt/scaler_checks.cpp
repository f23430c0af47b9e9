// What of loss scaling needs the host in the middle of a round: a scaler for each loss, and steps that are tried again.
// Sums of gradients are chosen to be exact, so that both machines must tell the same story to the bit.
#include <cstring>
#include <limits>

#include "amp/grad_scaler.h"
#include "autograd/cast.h"
#include "core/factory.h"
#include "core/parameter.h"
#include "ops/ops.h"
#include "ops/optest_checks.h"
#include "optim/adamw.h"
#include "tests/simt/device_checks.h"
#include "tests/simt/machine.h"
#include "tests/simt/step_checks.h"

namespace mixtape::simt_tests {
namespace {

using amp::GradScaler;
using optest::Checks;
using optest::Numbers;
using optim::StepResult;

/// Results, scales, counters and weights, one after the other, and what was not finite.
struct Tale {
  Numbers numbers;
  std::vector<std::string> nonfinite;
};

void tell(Tale& tale, const GradScaler& scaler) {
  const amp::ScalerState& state = scaler.state();
  for (const int64_t number :
       {state.rounds, state.skipped_overflow, state.skipped_nonfinite, state.consecutive_skips}) {
    tale.numbers.push_back(static_cast<double>(number));
  }
  tale.numbers.push_back(state.scale.scale);
  tale.nonfinite.insert(tale.nonfinite.end(), scaler.nonfinite().begin(), scaler.nonfinite().end());
}

void tell(Tale& tale, const NamedTensors& parameters) {
  for (const NamedTensor& parameter : parameters) {
    const Numbers values = to_vector(parameter.tensor);
    tale.numbers.insert(tale.numbers.end(), values.begin(), values.end());
  }
}

class Model {
 public:
  explicit Model(Device device) : device_(device) {
    for (const auto& [name, size] : {std::pair{"a", 5}, {"b", 40}}) {
      const Tensor value = to(randn({size}, {23, rng_stream::test, 0, 0, 1}, 0.5), device);
      parameters.push_back({name, value.detach().set_requires_grad()});
    }
    optimizer = std::make_unique<optim::AdamW>(parameters, optim::AdamWOptions{.lr = 0.01});
  }

  /// Σ factor·cᵢ·pᵢ with cᵢ of a few bits and 16-bit gradients, which overflow where scale·factor·c does.
  Tensor loss(double factor) const {
    Tensor out = full({}, 0, DType::f32, device_);
    for (const NamedTensor& parameter : parameters) {
      const Tensor c = copy_of(to(full(parameter.tensor.shape(), 0.75), device_), DType::f16);
      out = ops::add(out,
                     ops::sum(autograd::cast(ops::mul(autograd::cast(parameter.tensor, DType::f16), c), DType::f32)));
    }
    return ops::mul(out, full({}, factor, DType::f32, device_));
  }

  NamedTensors parameters;
  std::unique_ptr<optim::Optimizer> optimizer;

 private:
  Device device_;
};

amp::ScalerOptions scaling(double init) {
  amp::ScalerOptions options;
  options.scale.init = init;
  options.scale.interval = 2;
  return options;
}

/// The first loss overflows at first, the second in the middle, and once it is not finite at all.
Tale two_losses(Device device) {
  Model model(device);
  GradScaler one(scaling(1 << 18)), two(scaling(1 << 10));
  GradScaler* const others[] = {&two};
  Tale tale;
  for (int round = 0; round < 8; ++round) {
    const double factor = round == 4 ? 4096 : round == 6 ? std::numeric_limits<double>::infinity() : 2;
    one.sweep(model.loss(1), *model.optimizer);
    two.sweep(model.loss(factor), *model.optimizer);
    tale.numbers.push_back(static_cast<double>(one.step(*model.optimizer, others).get()));
    one.update();
    two.update();
    tell(tale, one);
    tell(tale, two);
    tell(tale, model.parameters);
  }
  return tale;
}

/// A step that overflows is tried again at the lower scale, as the trainer does on request.
Tale tried_again(Device device) {
  Model model(device);
  GradScaler scaler(scaling(1 << 20));
  Tale tale;
  for (int round = 0; round < 5; ++round) {
    StepResult result = StepResult::skipped_overflow;
    for (int attempt = 0; attempt < 20; ++attempt) {
      autograd::backward(scaler.scale(model.loss(round == 3 ? 64 : 1)));
      result = scaler.step(*model.optimizer).get();
      if (result != StepResult::skipped_overflow || !scaler.will_fall()) break;
      scaler.end_attempt();
      tell(tale, scaler);
    }
    scaler.update();
    tale.numbers.push_back(static_cast<double>(result));
    tell(tale, scaler);
    tell(tale, model.parameters);
  }
  return tale;
}

bool has_overflows(const Tale& tale) { return !tale.nonfinite.empty() && tale.nonfinite.front() != "loss"; }

void check_tale(Checks& checks, Tale (*tale_on)(Device)) {
  const Tale host = tale_on({});
  checks.expect(has_overflows(host), "nothing overflows");
  for (int turn = 0; turn < turns; ++turn) {
    const Turn guard(turn);
    const Tale device = tale_on(the_device);
    const double last_bits = rounds_as_here ? 0 : 8 * eps(DType::f32);
    checks.within(device.numbers, host.numbers, Numbers(host.numbers.size(), last_bits), 1e300);
    checks.expect(device.nonfinite == host.nonfinite, "other tensors are not finite than on the CPU");
  }
}

}  // namespace

void check_scalers(optest::Report& report) {
  Checks checks(report);
  checks.run("a scaler for each of two losses", [&] { check_tale(checks, two_losses); });
  checks.run("steps that are tried again", [&] { check_tale(checks, tried_again); });
}

}  // namespace mixtape::simt_tests
