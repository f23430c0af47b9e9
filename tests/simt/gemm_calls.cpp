// Records calls of kernels::gemm. The linker leads them here (-Wl,--wrap): the library has no hook and pays nothing.
#include "tests/simt/gemm_calls.h"

#include <algorithm>

#include "amp/autocast.h"
#include "amp/products.h"
#include "autograd/backward.h"
#include "core/factory.h"
#include "tests/simt/tiny_bert.h"

namespace mixtape::simt_tests {
namespace {

GemmStep* recording = nullptr;

}  // namespace

using GemmFunction = void(const View&, const View&, const View&, const kernels::GemmOptions&);
GemmFunction real_gemm asm("__real__ZN7mixtape7kernels4gemmERKNS_4ViewES3_S3_RKNS0_11GemmOptionsE");
GemmFunction recorded_gemm asm("__wrap__ZN7mixtape7kernels4gemmERKNS_4ViewES3_S3_RKNS0_11GemmOptionsE");

void recorded_gemm(const View& a, const View& b, const View& c, const kernels::GemmOptions& options) {
  if (recording) {
    const GemmCall call{a.dtype,       c.dtype,           a.shape,
                        b.shape,       c.shape,           a.strides,
                        b.strides,     c.strides,         options.bias ? true : false,
                        options.alpha, options.accumulate};
    ++recording->count;
    recording->operations += 2.0 * static_cast<double>(c.numel()) * static_cast<double>(a.shape.back());
    if (std::find(recording->calls.begin(), recording->calls.end(), call) == recording->calls.end()) {
      recording->calls.push_back(call);
    }
  }
  real_gemm(a, b, c, options);
}

GemmStep gemm_step_of_bert(DType dtype, bool fused) {
  const models::BertClassifier model(tiny_bert(), 1);
  (void)model.parameters();
  models::BertInput input;
  input.ids = from_ints({2, 5, 9, 3, 8, 2, 7, 3, 0, 0, 2, 3, 0, 0, 0}, {3, 5});
  input.attention_mask = from_bools(
      {true, true, true, true, true, true, true, true, false, false, true, true, false, false, false}, {3, 5});

  GemmStep step;
  Observer observer;
  observer.self = &step;
  observer.on_call = [](void* self, const CallEvent& event) {
    if (event.op.info->name == "attention") return;
    const amp::Products products = amp::products_of(event);
    static_cast<GemmStep*>(self)->expected_operations += products.forward + products.backward;
  };
  ContextGuard modes;
  context().fused = fused;
  const ObserverGuard observing(observer);
  recording = &step;
  Tensor loss;
  {
    const amp::Autocast guard(dtype == DType::f32 ? DType::bf16 : dtype, dtype != DType::f32);
    loss = model.loss_of(model.logits(input, true), from({1, 0, 1}, {3}), 3);
  }
  autograd::backward(loss);
  recording = nullptr;
  return step;
}

}  // namespace mixtape::simt_tests
