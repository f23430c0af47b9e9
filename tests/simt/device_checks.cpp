#include "tests/simt/device_checks.h"

#include <utility>

#include "autograd/backward.h"
#include "core/allocator.h"
#include "core/device_module.h"
#include "core/factory.h"
#include "core/parameter.h"
#include "ops/ops.h"
#include "ops/optest_checks.h"
#include "tests/simt/machine.h"

namespace mixtape::simt_tests {
namespace {

using optest::Checks;
using optest::Numbers;

Tensor numbers(const Shape& shape, uint32_t draw) { return randn(shape, {11, rng_stream::test, 0, 0, draw}, 0.5); }
Tensor moved(const Tensor& tensor) { return to(tensor, the_device); }

/// The code of the error that f throws; what it says must hold `words`.
template <class F>
void refuses(Checks& checks, const char* code, const char* words, const F& f) {
  checks.at(message("must refuse: ", words));
  try {
    f();
    checks.expect(false, "did not throw");
  } catch (const Error& error) {
    checks.expect(error.code() == code, message("threw ", error.code(), ", expected ", code));
    checks.expect(std::string(error.what()).find(words) != std::string::npos, error.what());
  }
}

void check_refusals(Checks& checks) {
  const Tensor x = numbers({2, 3}, 1), far = moved(x);
  refuses(checks, "E-DEVICE-MIXED", "add: input 'b' lies on cpu, the first input on cuda:0", [&] { ops::add(far, x); });
  refuses(checks, "E-DEVICE-MIXED", "a seed lies on cpu, its output on cuda:0",
          [&] { autograd::grad({ops::gelu(moved(x).set_requires_grad())}, {}, {}, {x}); });
  refuses(checks, "E-DEVICE-MIXED", "copy it to the CPU with to()", [&] { far.data<float>(); });
  refuses(checks, "E-DEVICE-DTYPE", "f64 is for gradient checks", [&] { ops::gelu(moved(copy_of(x, DType::f64))); });
  OpSchema& row = const_cast<OpSchema&>(*find_op("gelu"));
  const auto kernel = std::exchange(row.device_forward, nullptr);
  refuses(checks, "E-DEVICE-KERNEL", "gelu: has no kernel for cuda:0", [&] { ops::gelu(far); });
  row.device_forward = kernel;
  refuses(checks, "E-DEVICE", "there is no cuda:1", [&] { empty({3}, DType::f32, {DeviceKind::cuda, 1}); });
  refuses(checks, "E-DEVICE-MODULE", "another one was loaded before", [&] { load_device_module("another"); });
}

void check_copies(Checks& checks) {
  checks.at("copies");
  const Tensor x = numbers({5, 4}, 2);
  for (const DType dtype : {DType::f32, DType::f16, DType::bf16, DType::f64, DType::i64, DType::i32, DType::u8}) {
    const Tensor there = moved(copy_of(x, dtype));
    checks.expect(there.device() == the_device && there.dtype() == dtype, "to() gives another device or dtype");
    checks.expect(to_vector(there) == to_vector(copy_of(x, dtype)),
                  message("other numbers after to(): ", name_of(dtype)));
  }
  const Tensor turned = ops::transpose(moved(x), 0, 1), back = to(turned, {});
  checks.expect(to_vector(back) == to_vector(ops::transpose(x, 0, 1)), "a transposed tensor comes back otherwise");
  checks.expect(back.contiguous() && to(x, {}).same_as(x) && to(turned, the_device).same_as(turned),
                "to() copies idly");
  checks.expect(full({}, 2.5, DType::bf16, the_device).item() == 2.5, "item() of a device's tensor");
  const Tensor room = zeros({5, 4}, DType::bf16, the_device);
  assign(room, x);
  checks.expect(to_vector(room) == to_vector(copy_of(x, DType::bf16)) && room.storage().version() == 1, "assign()");
}

void check_memory(Checks& checks) {
  checks.at("memory");
  Allocator& allocator = allocator_of(the_device);
  checks.expect(&allocator == &device_backend(the_device).allocator(the_device), "its memory is another one's");
  const auto step = [] { return ops::softmax(ops::gelu(moved(numbers({3, 40}, 3)))); };
  step();
  const MemoryStats first = allocator.stats();
  step();
  const MemoryStats second = allocator.stats();
  checks.expect(first.system_allocations == second.system_allocations, "a second step takes memory from the system");
  checks.expect(first.live_bytes == second.live_bytes && second.reserved_bytes > 0, "memory leaks, or is not kept");
  allocator.release_cached();
  checks.expect(allocator.stats().reserved_bytes == allocator.stats().live_bytes, "release_cached() keeps some");
}

/// The leaves of a small model after two sweeps at different scales: gradients that meet, casts that are shadows, and
/// rows of a table.
Tensors leaves_after_two_sweeps(Device device) {
  const auto leaf = [&](const Shape& shape, uint32_t draw) {
    return to(numbers(shape, draw), device).detach().set_requires_grad();
  };
  const Tensors leaves{leaf({9, 8}, 4), leaf({8}, 5), leaf({8}, 6), leaf({6, 8}, 7), leaf({6}, 8)};
  const Tensor ids = to(from_ints({3, 1, 3, 8}, {4}), device), targets = to(from_ints({0, 5, 2, 2}, {4}), device);
  Context modes = context();
  modes.cast_rule = std::make_shared<const CastRule>();  // bf16, the rules of the table
  for (const double scale : {1.0, 8.0}) {
    const ContextGuard guard(modes);
    const Tensor h = ops::layer_norm(ops::embedding(leaves[0], ids), leaves[1], leaves[2], 1e-5);
    const Tensor loss = ops::cross_entropy(ops::linear(ops::gelu(h), leaves[3], leaves[4]), targets);
    autograd::backward(autograd::ScaledLoss{loss, scale});
  }
  return leaves;
}

void check_leaves(Checks& checks) {
  checks.at("gradients of leaves after two sweeps");
  const Tensors host = leaves_after_two_sweeps({}), device = leaves_after_two_sweeps(the_device);
  for (int i = 0; i < host.size(); ++i) {
    const Numbers want = to_vector(host[i].grad());
    Numbers bound;
    for (const double value : want) bound.push_back(2 * eps(DType::bf16) * (0.05 + std::abs(value)));
    checks.expect(device[i].grad().device() == the_device, "a gradient lies elsewhere than its leaf");
    checks.within(to_vector(device[i].grad()), want, bound, 1e300);
  }
  checks.expect(shadow_is_fresh(device[3], DType::bf16), "the cast of a weight made no shadow");
  assign(device[3], host[3]);
  checks.expect(!shadow_is_fresh(device[3], DType::bf16), "a shadow outlives its parameter's version");
}

}  // namespace

Tensor as_laid_on_device(const Tensor& tensor) {
  if (!tensor) return {};
  const int64_t bytes = static_cast<int64_t>(tensor.storage().bytes());
  const Tensor whole(tensor.storage(), {{bytes}, {1}, 0, DType::u8});
  return Tensor(moved(whole).storage(), tensor.geometry());
}

void check_device_tensors(optest::Report& report) {
  Checks checks(report);
  const Guarded guard;
  checks.run("tensors", [&] { check_refusals(checks); });
  checks.run("tensors", [&] { check_copies(checks); });
  checks.run("tensors", [&] { check_memory(checks); });
  checks.run("tensors", [&] { check_leaves(checks); });
}

}  // namespace mixtape::simt_tests
