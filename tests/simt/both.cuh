// Kernels on both machines: the same call on the CPU and on the device, and what they gave side by side. Compiled for
// the device-on-CPU runner by g++ and for a GPU by nvcc.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <string>
#include <vector>

#include "core/factory.h"
#include "core/kernels/loops.h"

#include "core/kernels/loops.cuh"
#include "tests/simt/machine.h"
#include "tests/simt/tally.h"

namespace mixtape::simt_tests {

using kernels::device::check_cuda;

/// Bytes on the device that say what they began with.
class DeviceBytes {
 public:
  DeviceBytes(const void* source, size_t bytes) : bytes_(bytes) {
    check_cuda(cudaMalloc(&data_, std::max<size_t>(bytes, 1)), "cudaMalloc");  // never null: that is absent
    if (source) first_.assign(static_cast<const char*>(source), static_cast<const char*>(source) + bytes);
    reset();
  }
  ~DeviceBytes() { cudaFree(data_); }
  DeviceBytes(const DeviceBytes&) = delete;
  DeviceBytes& operator=(const DeviceBytes&) = delete;

  char* data() const { return static_cast<char*>(data_); }
  /// As at the beginning: the source, or NaN in every float type.
  void reset() const {
    if (first_.empty()) {
      check_cuda(cudaMemsetAsync(data_, 0xff, bytes_, nullptr), "cudaMemset");
    } else {
      check_cuda(cudaMemcpy(data_, first_.data(), bytes_, cudaMemcpyHostToDevice), "cudaMemcpy");
    }
  }
  std::vector<char> read() const {
    std::vector<char> bytes(bytes_);
    check_cuda(cudaMemcpy(bytes.data(), data_, bytes_, cudaMemcpyDeviceToHost), "cudaMemcpy");
    return bytes;
  }

 private:
  void* data_ = nullptr;
  size_t bytes_;
  std::vector<char> first_;
};

/// A tensor on both machines.
class Pair {
 public:
  /// An input, or what a kernel changes.
  explicit Pair(const Tensor& host) : host_(host), device_(host.storage().data(), host.storage().bytes()) {}
  /// An output.
  Pair(const Shape& shape, DType dtype) : host_(empty(shape, dtype)), device_(nullptr, host_.storage().bytes()) {}

  DType dtype() const { return host_.dtype(); }
  View host() const { return host_.view(); }
  View device() const {
    View v = host_.view();
    v.data = device_.data() + (static_cast<char*>(v.data) - static_cast<char*>(host_.storage().data()));
    v.device = {DeviceKind::cuda, 0};
    return v;
  }
  const DeviceBytes& bytes() const { return device_; }
  std::vector<double> host_values() const { return to_vector(host_); }
  std::vector<double> device_values() const {
    const Storage room(host_.storage().bytes(), {});
    const std::vector<char> bytes = device_.read();
    std::memcpy(room.data(), bytes.data(), bytes.size());
    return to_vector(Tensor(room, host_.geometry()));
  }

 private:
  Tensor host_;
  DeviceBytes device_;
};

/// The machine that a call runs on.
struct OnHost {
  View operator()(const Pair& pair) const { return pair.host(); }
  template <class F, class... In>
  void map(const F& f, const View& out, const In&... in) const {
    kernels::map(f, out, in...);
  }
  template <class F, class... In>
  void fold(const F& f, const Shape& full, const View& out, const In&... in) const {
    kernels::fold(f, full, out, in...);
  }
  template <class F, class... Op>
  void rows(const F& f, const Shape& full, const Op&... operand) const {
    kernels::rows(f, full, operand...);
  }
};
struct OnDevice {
  View operator()(const Pair& pair) const { return pair.device(); }
  template <class F, class... In>
  void map(const F& f, const View& out, const In&... in) const {
    const kernels::Operand operands[] = {out, in...};
    kernels::device::map<F, sizeof...(In)>(f, operands);
  }
  template <class F, class... In>
  void fold(const F& f, const Shape& full, const View& out, const In&... in) const {
    const kernels::Operand operands[] = {out, in...};
    kernels::device::fold<F, sizeof...(In)>(f, full, operands);
  }
  template <class F, class... Op>
  void rows(const F& f, const Shape& full, const Op&... operand) const {
    const kernels::Operand operands[] = {operand...};
    kernels::device::rows<F, sizeof...(Op)>(f, full, operands);
  }
};

/// Calls f in every order of blocks and threads, with device memory out of the host's reach; on a GPU once.
template <class F>
void in_all_orders(const F& f) {
#if defined(MIXTAPE_SIMT)
  for (int turn = 0; turn < turns; ++turn) {
    const Turn guard(turn);
    f();
  }
#else
  f();
#endif
}

/// The largest difference that two orders of adding up `terms` numbers explain: docs/device.md derives it.
inline void check_near(const std::vector<double>& host, const std::vector<double>& device, DType dtype, double terms) {
  REQUIRE(host.size() == device.size());
  double largest = 0;
  for (const double value : host) largest = std::max(largest, std::isfinite(value) ? std::abs(value) : 0);
  const double sums = terms == 0 ? 0 : 4 * (8 + terms) * eps(DType::f32) * largest;
  int wrong = 0;
  for (size_t i = 0; i < host.size() && wrong < 4; ++i) {
    const double bound = (terms == 0 ? 0 : eps(dtype) * std::abs(host[i])) + sums;
    const bool same = host[i] == device[i] || (std::isnan(host[i]) && std::isnan(device[i]));
    if (same || std::abs(host[i] - device[i]) <= bound) continue;
    ++wrong;
    INFO("element ", i, ": host ", host[i], ", device ", device[i], ", bound ", bound);
    CHECK(false);
  }
}

/// Runs call(OnHost) once and call(OnDevice) in all orders: the device's outputs have the same bits in each, and lie
/// beside the host's as `terms`, the numbers that a sum has at most, explains; 0: they are equal.
template <class Call>
void check_both(const char* row, const std::vector<const Pair*>& outputs, double terms, const Call& call) {
  tally().rows.insert(row);
  ++tally().cases;
  INFO("row ", row);
  call(OnHost{});
  std::vector<std::vector<char>> first;
  in_all_orders([&] {
    for (const Pair* output : outputs) output->bytes().reset();
    call(OnDevice{});
    for (size_t i = 0; i < outputs.size(); ++i) {
      std::vector<char> bytes = outputs[i]->bytes().read();
      if (first.size() < outputs.size()) {
        check_near(outputs[i]->host_values(), outputs[i]->device_values(), outputs[i]->dtype(), terms);
        first.push_back(std::move(bytes));
      } else {
        CHECK_MESSAGE(bytes == first[i], "another order of blocks and threads gives other bits");
      }
    }
  });
}

inline constexpr DType float_types[] = {DType::f32, DType::bf16, DType::f16};

/// Normal numbers that differ from draw to draw.
inline Tensor numbers(const Shape& shape, DType dtype, uint32_t draw, double std = 1.0, double mean = 0.0) {
  return randn(shape, {11, rng_stream::test, 0, 0, draw}, std, mean, dtype);
}
inline Tensor ids(const Shape& shape, int64_t below, uint32_t draw) {
  std::vector<int64_t> values;
  for (int64_t i = 0; i < shape.numel(); ++i) {
    const RngCoordinates at{12, rng_stream::test, 0, 0, draw};
    values.push_back(static_cast<int64_t>(uniform32(at, static_cast<uint64_t>(i)) * static_cast<double>(below)));
  }
  return from_ints(values, shape);
}

}  // namespace mixtape::simt_tests
