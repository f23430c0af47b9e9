// Every matrix product of a training step of BERT, as the CPU was asked for it, on the device.
#include <doctest/doctest.h>

#include "tests/simt/gemm_both.cuh"
#include "tests/simt/gemm_calls.h"

namespace mixtape::simt_tests {
namespace {

/// Random numbers wherever a view of these strides can look.
Tensor numbers_below(const Shape& shape, const Strides& strides, DType dtype, uint32_t draw) {
  int64_t last = 0;
  for (int axis = 0; axis < shape.rank(); ++axis) last += std::max<int64_t>(shape[axis] - 1, 0) * strides[axis];
  return numbers({last + 1}, dtype, draw);
}

void replay(const GemmCall& call) {
  const Pair a(numbers_below(call.a, call.a_strides, call.dtype, 1)),
      b(numbers_below(call.b, call.b_strides, call.dtype, 2)),
      c(numbers_below(call.c, call.c_strides, call.c_dtype, 3)), bias(numbers({call.c.back()}, DType::f32, 4));
  INFO(call.a.str(), " x ", call.b.str(), " -> ", call.c.str());
  check_both("linear", {&c}, static_cast<double>(call.a.back()) + 2, [&](const auto& on) {
    GemmOptions options{.alpha = call.alpha, .accumulate = call.accumulate};
    if (call.bias) options.bias = on(bias);
    multiply(on, with_layout(on(a), call.a, call.a_strides), with_layout(on(b), call.b, call.b_strides),
             with_layout(on(c), call.c, call.c_strides), options);
  });
}

}  // namespace

TEST_CASE("every matrix product of a BERT step, fused and composed, in three dtypes") {
  for (const bool fused : {true, false}) {
    for (const DType dtype : float_types) {
      const GemmStep step = gemm_step_of_bert(dtype, fused);
      CAPTURE(fused);
      CAPTURE(std::string(name_of(dtype)));
      // None was missed: what was recorded is all that the step's ops multiply.
      CHECK(step.operations == step.expected_operations);
      CHECK(step.count > 20);
      const GemmSession session;
      for (const GemmCall& call : step.calls) replay(call);
    }
  }
}

}  // namespace mixtape::simt_tests
