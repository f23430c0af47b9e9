#include "tests/simt/step_checks.h"

#include <cstring>
#include <limits>

#include "core/allocator.h"
#include "core/device_module.h"
#include "core/factory.h"
#include "core/parameter.h"
#include "ops/optest_checks.h"
#include "optim/adamw.h"
#include "optim/clip.h"
#include "optim/sgd.h"
#include "tests/simt/device_checks.h"
#include "tests/simt/machine.h"

namespace mixtape::simt_tests {
namespace {

using optest::Checks;
using optest::Numbers;
using optim::Rounding;
using optim::StepResult;

constexpr int steps = 5, overflowing_step = 2, late_step = 1;

struct Kind {
  const char* name;
  std::unique_ptr<optim::Optimizer> (*make)(const NamedTensors& parameters);
};
const Kind kinds[] = {
    {"AdamW",
     [](const NamedTensors& p) -> std::unique_ptr<optim::Optimizer> {
       return std::make_unique<optim::AdamW>(p, optim::AdamWOptions{.lr = 0.01, .beta2 = 0.99, .weight_decay = 0.1});
     }},
    {"SGD",
     [](const NamedTensors& p) -> std::unique_ptr<optim::Optimizer> {
       return std::make_unique<optim::SGD>(p, optim::SGDOptions{.lr = 0.05, .weight_decay = 0.1});
     }},
    {"SGD, Nesterov",
     [](const NamedTensors& p) -> std::unique_ptr<optim::Optimizer> {
       return std::make_unique<optim::SGD>(
           p, optim::SGDOptions{.lr = 0.05, .momentum = 0.9, .nesterov = true, .weight_decay = 0.01});
     }},
};

Tensor draw(const Shape& shape, uint32_t number) { return randn(shape, {17, rng_stream::test, 0, 0, number}, 0.5); }

NamedTensors parameters_on(Device device, DType dtype) {
  const Shape shapes[] = {{5}, {33, 3}, {0}, {4097}, {7}};
  NamedTensors all;
  for (uint32_t i = 0; i < std::size(shapes); ++i) {
    const Tensor value = to(copy_of(draw(shapes[i], i), dtype), device).detach().set_requires_grad();
    all.push_back({message("layer.", static_cast<int64_t>(i), i % 2 ? ".weight" : ".bias"), value});
  }
  shadow_bytes(all[1].tensor, DType::bf16);
  return all;
}

/// What must be equal to the bit, one after the other.
struct Story {
  Numbers bits, norms;
  std::vector<std::string> nonfinite;
};

void give_gradients(const NamedTensors& parameters, int step) {
  for (uint32_t i = 0; i < parameters.size(); ++i) {
    const Tensor& p = parameters[i].tensor;
    if (i == 4 && step < late_step) continue;
    const Tensor g = draw(p.shape(), 100 * static_cast<uint32_t>(step + 1) + i);
    if (i == 1) g.data<float>()[3] = 0;
    if (i == 3 && step == overflowing_step) g.data<float>()[4096] = std::numeric_limits<float>::infinity();
    p.leaf().gradient = {to(g, p.device()), 0.25};
  }
}

void append(Numbers& all, const Tensor& tensor) {
  const Numbers values = to_vector(tensor);
  all.insert(all.end(), values.begin(), values.end());
}

Story story_of(const Kind& kind, DType dtype, Rounding rounding, Device device) {
  const NamedTensors parameters = parameters_on(device, dtype);
  const auto optimizer = kind.make(parameters);
  optimizer->set_rounding(rounding, 5);
  Story story;
  for (int step = 0; step < steps; ++step) {
    give_gradients(parameters, step);
    const optim::GradientSurvey found = optimizer->survey();
    story.nonfinite.insert(story.nonfinite.end(), found.nonfinite.begin(), found.nonfinite.end());
    story.norms.push_back(found.norm);
    const optim::Outcome outcome = optimizer->step();
    story.bits.push_back(static_cast<double>(outcome.get()));
    story.bits.push_back(outcome.applied() ? optimizer->lost_updates().value_or(-1) : 0);
    if (step == 3) optimizer->load_state(optimizer->state());
    if (step == 3) optimizer->set_lr(0.003);
  }
  for (const NamedTensor& parameter : parameters) append(story.bits, parameter.tensor);
  for (const NamedTensor& state : optimizer->state()) append(story.bits, state.tensor);
  const Tensor& twin = parameters[1].tensor;
  if (dtype == DType::f32) {
    append(story.bits, Tensor(shadow_bytes(twin, DType::bf16), {twin.shape(), twin.strides(), 0, DType::bf16}));
  }
  return story;
}

bool same(const Numbers& a, const Numbers& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(double)) == 0;
}

void check_kind(Checks& checks, const Kind& kind, DType dtype, Rounding rounding) {
  const Story host = story_of(kind, dtype, rounding, {});
  checks.expect(host.nonfinite == std::vector<std::string>{"layer.3.weight"}, "the overflow is not where it was put");
  for (int turn = 0; turn < turns; ++turn) {
    const Turn guard(turn);
    const Story device = story_of(kind, dtype, rounding, the_device);
    if (rounds_as_here) {
      checks.expect(same(device.bits, host.bits), "other bits than the CPU's");
    } else {
      checks.within(device.bits, host.bits, Numbers(host.bits.size(), 8 * eps(dtype)), 1e300);
    }
    checks.expect(device.nonfinite == host.nonfinite, "other parameters are not finite than on the CPU");
    Numbers bound;
    for (const double norm : host.norms) bound.push_back(1e-14 * norm);
    checks.within(device.norms, host.norms, bound, 1e300);
    device_backend(the_device).synchronize();
  }
}

}  // namespace

void check_optimizers(optest::Report& report) {
  Checks checks(report);
  for (const Kind& kind : kinds) {
    for (const DType dtype : {DType::f32, DType::bf16, DType::f16}) {
      for (const Rounding rounding : {Rounding::nearest, Rounding::stochastic, Rounding::compensated}) {
        if (rounding != Rounding::nearest && dtype != DType::bf16) continue;
        const std::string place = message(kind.name, ", ", name_of(dtype), ", rounding ", static_cast<int>(rounding));
        checks.run(place, [&] { check_kind(checks, kind, dtype, rounding); });
      }
    }
  }
}

}  // namespace mixtape::simt_tests
