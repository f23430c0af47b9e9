// AdamW on the device beside optim::AdamW: many tensors, a schedule, shadows, and steps that must be skipped.
#include <doctest/doctest.h>

#include <limits>

#include "core/parameter.h"
#include "optim/adamw.cuh"
#include "optim/schedule.h"
#include "tests/simt/both.cuh"

namespace mixtape::simt_tests {
namespace {

using optim::device::AdamWTensor;
using optim::device::StepState;

const optim::AdamWOptions options{.lr = 0.01, .beta1 = 0.9, .beta2 = 0.99, .eps = 1e-8, .weight_decay = 0.1};
const optim::SchedulePlan plan{optim::ScheduleKind::linear, 0.01, 10, 3};
constexpr int steps = 5, skipped_step = 2;

/// More tensors than one launch takes, of sizes around the boundaries of lanes and blocks.
std::vector<int64_t> sizes() {
  std::vector<int64_t> all{1, 3, 4, 5, 4095, 4096, 4097, 9000, 0};
  while (all.size() < 30) all.push_back(static_cast<int64_t>(all.size()) * 7);
  return all;
}
Tensor gradient(size_t which, int64_t size, int step) {
  return numbers({size}, DType::f32, static_cast<uint32_t>(100 + which + 1000 * static_cast<size_t>(step)));
}

/// The same parameters for optim::AdamW and for the device.
struct Parameters {
  std::vector<std::unique_ptr<Pair>> values, shadows, first, second;
  NamedTensors host;
};
Parameters parameters(DType dtype) {
  Parameters all;
  for (size_t i = 0; i < sizes().size(); ++i) {
    const Tensor value = numbers({sizes()[i]}, dtype, static_cast<uint32_t>(i));
    all.values.push_back(std::make_unique<Pair>(value));
    all.shadows.push_back(std::make_unique<Pair>(value.shape(), DType::bf16));
    all.first.push_back(std::make_unique<Pair>(zeros(value.shape())));
    all.second.push_back(std::make_unique<Pair>(zeros(value.shape())));
    all.host.push_back(
        {"layer" + std::to_string(i) + (i % 2 ? ".weight" : ".bias"), copy_of(value).set_requires_grad()});
  }
  return all;
}

double bad_value(int step) {
  return step == skipped_step ? std::numeric_limits<double>::infinity() : std::numeric_limits<double>::quiet_NaN();
}

/// All steps on the device; one gradient of `skipped_step` is not finite.
StepState run_on_device(const Parameters& all, double multiplier) {
  const StepState begin{0, multiplier, 0, 0, 0};
  const DeviceBytes state_bytes(&begin, sizeof begin);
  StepState* state = reinterpret_cast<StepState*>(state_bytes.data());
  for (int step = 0; step < steps; ++step) {
    std::vector<std::unique_ptr<Pair>> raw;
    std::vector<AdamWTensor> tensors;
    for (size_t i = 0; i < all.values.size(); ++i) {
      const Tensor g = gradient(i, sizes()[i], step);
      if (step == skipped_step && i == 7) g.data<float>()[8999] = static_cast<float>(bad_value(step));
      raw.push_back(std::make_unique<Pair>(g));
      const View value = all.values[i]->device();
      tensors.push_back({value.data, raw[i]->device().as<float>(), all.first[i]->device().as<float>(),
                         all.second[i]->device().as<float>(), all.shadows[i]->device().data, sizes()[i], 0,
                         i % 2 ? options.weight_decay : 0, 1, 0.5, value.dtype, DType::bf16});
    }
    optim::device::survey_gradients(tensors, state, nullptr);
    optim::device::adamw_step(tensors, options, plan, state, nullptr);
    optim::device::settle_step(state, nullptr);
    check_cuda(cudaDeviceSynchronize(), "synchronise");  // before the gradients go
  }
  StepState after;
  const std::vector<char> bytes = state_bytes.read();
  std::memcpy(&after, bytes.data(), sizeof after);
  return after;
}

void run_on_host(const Parameters& all, double multiplier) {
  optim::AdamW adamw(all.host, options);
  optim::Schedule schedule(adamw, plan);
  for (int step = 0; step < steps; ++step) {
    for (size_t i = 0; i < all.host.size(); ++i) {
      const Tensor g = gradient(i, sizes()[i], step);
      if (step == skipped_step && i == 7) g.data<float>()[8999] = static_cast<float>(bad_value(step));
      all.host[i].tensor.leaf().gradient = {g, multiplier * 0.5};
    }
    schedule.advance(adamw.step());
  }
}

}  // namespace

TEST_CASE("AdamW over many tensors gives the bits of optim::AdamW, and skips what it skips") {
  for (const DType dtype : float_types) {
    const Parameters all = parameters(dtype);
    run_on_host(all, 0.25);
    tally().rows.insert("AdamW");
    ++tally().cases;
    in_all_orders([&] {
      for (size_t i = 0; i < all.values.size(); ++i) {
        for (const Pair* pair : {all.values[i].get(), all.first[i].get(), all.second[i].get(), all.shadows[i].get()}) {
          pair->bytes().reset();
        }
      }
      const StepState after = run_on_device(all, 0.25);
      CHECK(after.attempted == steps);
      CHECK(after.updates == steps - 1);
      CHECK(after.consecutive_skips == 0);
      CHECK(after.nonfinite == 0);
      for (size_t i = 0; i < all.values.size(); ++i) {
        INFO("tensor ", i);
        const std::vector<double> host = to_vector(all.host[i].tensor), device = all.values[i]->device_values();
        check_near(host, device, dtype, 0);
        if (dtype == DType::f32) {
          check_near(to_vector(copy_of(all.host[i].tensor, DType::bf16)), all.shadows[i]->device_values(), dtype, 0);
        }
      }
    });
  }
}

TEST_CASE("a multiplier that makes a gradient overflow is a skip too") {
  const Pair p(numbers({5}, DType::f32, 1)), m(zeros({5})), v(zeros({5})), raw(full({5}, 1e30));
  const StepState begin{0, 1e20, 0, 0, 0};
  in_all_orders([&] {
    const DeviceBytes state(&begin, sizeof begin);
    p.bytes().reset();
    const AdamWTensor tensor{p.device().data,
                             raw.device().as<float>(),
                             m.device().as<float>(),
                             v.device().as<float>(),
                             nullptr,
                             5,
                             0,
                             0,
                             1,
                             1,
                             DType::f32,
                             DType::bf16};
    for (int step = 0; step < 2; ++step) {
      optim::device::survey_gradients({&tensor, 1}, reinterpret_cast<StepState*>(state.data()), nullptr);
      optim::device::adamw_step({&tensor, 1}, options, plan, reinterpret_cast<StepState*>(state.data()), nullptr);
      optim::device::settle_step(reinterpret_cast<StepState*>(state.data()), nullptr);
    }
    StepState after;
    const std::vector<char> bytes = state.read();
    std::memcpy(&after, bytes.data(), sizeof after);
    CHECK(after.updates == 0);
    CHECK(after.consecutive_skips == 2);
    CHECK(p.device_values() == p.host_values());
  });
}

}  // namespace mixtape::simt_tests
