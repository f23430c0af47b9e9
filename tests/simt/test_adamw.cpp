// AdamW on the device beside optim::AdamW: many tensors, a schedule, shadows, and steps that must be skipped.
#include <doctest/doctest.h>

#include <limits>

#include "core/parameter.h"
#include "optim/adamw.h"
#include "optim/adamw_formula.h"
#include "optim/schedule.h"
#include "optim/step.cuh"
#include "tests/simt/both.cuh"

namespace mixtape::simt_tests {
namespace {

using optim::StepRecord;
using optim::StepResult;
using optim::StepTable;
using optim::TableRow;

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

/// What a step needs in device memory beside parameters.
class Memory {
 public:
  explicit Memory(size_t rows) : rows_(rows) {
    const double rate = optim::lr_at(plan, 0);
    lr_ = std::make_unique<DeviceBytes>(&rate, sizeof rate);
    const std::vector<char> zero(std::max(rows * 256, sizeof(StepRecord) + rows), 0);
    for (auto* part : {&table_, &parts_, &found_, &record_, &steps_, &updates_}) {
      *part = std::make_unique<DeviceBytes>(zero.data(), zero.size());
    }
  }
  int64_t* steps(size_t i) const { return reinterpret_cast<int64_t*>(steps_->data()) + i; }

  void step(std::vector<TableRow> rows) {
    StepTable table{reinterpret_cast<const TableRow*>(table_->data()), static_cast<int>(rows.size()), 0};
    for (TableRow& row : rows) {
      row.first_block = table.blocks;
      table.blocks += (row.count + optim::block_elements - 1) / optim::block_elements;
    }
    check_cuda(cudaMemcpy(table_->data(), rows.data(), rows.size() * sizeof(TableRow), cudaMemcpyHostToDevice), "copy");
    const auto found = reinterpret_cast<kernels::device::CensusPart*>(found_->data());
    const auto record = reinterpret_cast<StepRecord*>(record_->data());
    const auto lr = reinterpret_cast<double*>(lr_->data());
    namespace device = optim::device;
    device::survey(table, reinterpret_cast<kernels::device::CensusPart*>(parts_->data()), found, nullptr);
    device::judge(table, found, reinterpret_cast<uint8_t*>(record + 1),
                  {record, nullptr, lr, nullptr, optim::Judging::decide}, nullptr);
    device::update(table, optim::AdamWRule{options.beta1, options.beta2, options.eps}, {}, lr, record, nullptr,
                   nullptr);
    kernels::device::launch(device::advance_kernel<>, 1, 1, 0, nullptr, record, plan,
                            reinterpret_cast<int64_t*>(updates_->data()), lr);
    check_cuda(cudaDeviceSynchronize(), "synchronise");  // before the gradients go
  }
  StepRecord record() const { return read<StepRecord>(*record_); }
  int64_t updates() const { return read<int64_t>(*updates_); }
  std::vector<char> flags() const {
    const std::vector<char> bytes = record_->read();
    const auto first = bytes.begin() + static_cast<std::ptrdiff_t>(sizeof(StepRecord));
    return {first, first + static_cast<std::ptrdiff_t>(rows_)};
  }

 private:
  template <class T>
  static T read(const DeviceBytes& from) {
    T value;
    const std::vector<char> bytes = from.read();
    std::memcpy(&value, bytes.data(), sizeof value);
    return value;
  }
  size_t rows_;
  std::unique_ptr<DeviceBytes> lr_, table_, parts_, found_, record_, steps_, updates_;
};

/// All steps on the device; one gradient of `skipped_step` is not finite.
void run_on_device(const Parameters& all, double multiplier) {
  Memory memory(all.values.size());
  const double half = 0.5;
  const DeviceBytes factor(&half, sizeof half);
  for (int step = 0; step < steps; ++step) {
    std::vector<std::unique_ptr<Pair>> raw;
    std::vector<TableRow> rows;
    for (size_t i = 0; i < all.values.size(); ++i) {
      const Tensor g = gradient(i, sizes()[i], step);
      if (step == skipped_step && i == 7) g.data<float>()[8999] = static_cast<float>(bad_value(step));
      raw.push_back(std::make_unique<Pair>(g));
      const View value = all.values[i]->device();
      TableRow row;
      row.parameter = value.data;
      row.raw = raw[i]->device().as<float>();
      row.state[0] = all.first[i]->device().as<float>();
      row.state[1] = all.second[i]->device().as<float>();
      row.shadow = all.shadows[i]->device().data;
      row.factor = reinterpret_cast<const double*>(factor.data());
      row.steps = memory.steps(i);
      row.multiplier = multiplier;
      row.weight_decay = i % 2 ? options.weight_decay : 0;
      row.count = sizes()[i];
      row.dtype = value.dtype;
      rows.push_back(row);
    }
    memory.step(rows);
    CHECK((memory.record().result == StepResult::applied) == (step != skipped_step));
    const std::vector<char> flags = memory.flags();
    for (size_t i = 0; i < flags.size(); ++i) CHECK((flags[i] != 0) == (step == skipped_step && i == 7));
  }
  CHECK(memory.updates() == steps - 1);
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
      run_on_device(all, 0.25);
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
  in_all_orders([&] {
    p.bytes().reset();
    Memory memory(1);
    TableRow row;
    row.parameter = p.device().data;
    row.raw = raw.device().as<float>();
    row.state[0] = m.device().as<float>();
    row.state[1] = v.device().as<float>();
    row.steps = memory.steps(0);
    row.multiplier = 1e20;
    row.count = 5;
    for (int step = 0; step < 2; ++step) memory.step({row});
    CHECK(memory.record().result == StepResult::skipped_overflow);
    CHECK(memory.record().nonfinite == 1);
    CHECK(memory.updates() == 0);
    CHECK(p.device_values() == p.host_values());
  });
}

}  // namespace mixtape::simt_tests
