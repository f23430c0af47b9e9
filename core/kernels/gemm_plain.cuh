// A product as it stands in a textbook, for what no library is asked: f64, in gradient checks.
#pragma once

#include "core/kernels/place.cuh"

namespace mixtape::kernels::device {

/// c = alpha·a·b (+ bias) (+ c), operands and strides (row, column) in elements; the batch walks c, a, b.
template <class T>
struct PlainProduct {
  Walk<3> batch;
  int64_t count, m, n, k;  ///< count: elements of c, of all batches
  T* c;
  const T *a, *b, *bias;
  int64_t c_stride[2], a_stride[2], b_stride[2], bias_stride;
  T alpha;
  bool accumulate;
};

template <class T>
__global__ void plain_product_kernel(const __grid_constant__ PlainProduct<T> p) {
  const int64_t step = int64_t{gridDim.x} * blockDim.x;
  for (int64_t index = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; index < p.count; index += step) {
    const int64_t column = index % p.n, row = index / p.n % p.m;
    int64_t at[3] = {};
    p.batch.add_offsets(index / p.n / p.m, at);
    const T* a = p.a + at[1] + row * p.a_stride[0];
    const T* b = p.b + at[2] + column * p.b_stride[1];
    T sum = 0;
    for (int64_t i = 0; i < p.k; ++i) sum += a[i * p.a_stride[1]] * b[i * p.b_stride[0]];
    T* c = p.c + at[0] + row * p.c_stride[0] + column * p.c_stride[1];
    T value = p.alpha * sum;
    if (p.bias) value += p.bias[column * p.bias_stride];
    *c = p.accumulate ? *c + value : value;
  }
}

}  // namespace mixtape::kernels::device
