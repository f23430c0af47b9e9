// What a matrix library must provide. gemm.cpp brings every call down to this; one of gemm_{onednn,eigen}.cpp is
// linked.
#pragma once

#include <cstdint>

#include "core/dtype.h"

namespace mixtape::kernels::engine {

/// c = alpha·a·b + beta·c, one product; c is row-major, a and b are row-major or stored transposed.
template <class T>
struct Product {
  int64_t m, n, k;
  const T* a;
  int64_t lda;  ///< elements from one stored row to the next
  bool a_transposed;
  const T* b;
  int64_t ldb;
  bool b_transposed;
  T* c;
  int64_t ldc;
  T alpha = 1, beta = 0;
};
void multiply(const Product<float>& product);
void multiply(const Product<double>& product);  ///< gradcheck's: always Eigen

/// bf16 · bf16, summed in f32, written as bf16 or f32, over up to two batch axes, bias added before the rounding.
struct LowProduct {
  int64_t batch[2], m, n, k;
  const void *a, *b;
  int64_t a_stride[4], b_stride[4], c_stride[4];  // batch, batch, row, column
  void* c;
  DType c_dtype;
  const float* bias;  // [n] or null
  float alpha;
  bool accumulate;
};
/// False when this library or CPU cannot do it natively: the caller then goes through f32.
bool multiply_bf16(const LowProduct& product);

const char* name();
const char* version();
bool native_bf16();

}  // namespace mixtape::kernels::engine
