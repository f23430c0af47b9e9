// Matrix products on a GPU by a tiled kernel: right for every layout, dtype and batch, and fast for none. What a tuned
// library gives is held against it.
#pragma once

#include "core/kernels/gemm.h"
#include "core/kernels/loops.h"

#include "core/kernels/place.cuh"

namespace mixtape::kernels::device {

inline constexpr int gemm_tile = 16;

/// A stored matrix: where it begins, and its steps along both axes.
struct MatrixOf {
  void* data;
  DType dtype;
  int64_t rows, columns, row_step, column_step;
  explicit MatrixOf(const View& v)
      : data(v.data),
        dtype(v.dtype),
        rows(v.shape[v.shape.rank() - 2]),
        columns(v.shape.back()),
        row_step(v.strides[v.shape.rank() - 2]),
        column_step(v.strides.back()) {}
  __device__ float at(int64_t batch, int64_t row, int64_t column) const {
    if (row >= rows || column >= columns) return 0;
    return load(data, dtype, batch + row * row_step + column * column_step);
  }
};

/// One product of each batch; c is [0], a [1], b [2] of the walk over batches.
template <int = 0>
__global__ void gemm_kernel(MatrixOf a, MatrixOf b, MatrixOf c, const __grid_constant__ Walk<3> batches, int64_t count,
                            const float* bias, int64_t bias_step, float alpha, bool accumulate) {
  __shared__ float left[gemm_tile][gemm_tile], right[gemm_tile][gemm_tile];
  const int64_t across = (c.columns + gemm_tile - 1) / gemm_tile;
  const int64_t row0 = blockIdx.x / across * gemm_tile, column0 = blockIdx.x % across * gemm_tile;
  const unsigned x = threadIdx.x % gemm_tile, y = threadIdx.x / gemm_tile;
  const int64_t row = row0 + y, column = column0 + x;
  for (int64_t batch = blockIdx.y; batch < count; batch += gridDim.y) {
    int64_t at[3] = {};
    batches.add_offsets(batch, at);
    float sum = 0;
    for (int64_t k = 0; k < a.columns; k += gemm_tile) {
      __syncthreads();
      left[y][x] = a.at(at[1], row, k + x);
      right[y][x] = b.at(at[2], k + y, column);
      __syncthreads();
      for (int i = 0; i < gemm_tile; ++i) sum += left[y][i] * right[i][x];
    }
    if (row >= c.rows || column >= c.columns) continue;
    float value = alpha * sum + (bias ? bias[column * bias_step] : 0.0f);
    if (accumulate) value += c.at(at[0], row, column);
    store(c.data, c.dtype, at[0] + row * c.row_step + column * c.column_step, value);
  }
}

/// As kernels::gemm, whose caller has checked shapes and dtypes; f64 is refused.
inline void gemm(const View& a, const View& b, const View& c, const GemmOptions& options = {},
                 cudaStream_t stream = nullptr) {
  if (a.dtype == DType::f64) {
    fail(ErrorKind::internal, "E-DEVICE-DTYPE", "gemm: a device multiplies f32 and 16-bit types, got f64");
  }
  const int rank = c.shape.rank();
  const int64_t m = c.shape[rank - 2], n = c.shape[rank - 1];
  View views[3] = {c, a, b};  // the batch axes alone: the last two become one element
  for (View& v : views) {
    v.shape[v.shape.rank() - 2] = v.shape[v.shape.rank() - 1] = 1;
  }
  const Plan batches = make_plan(views[0].shape, views, 3);
  const int64_t count = batches.count(), tiles = (m + gemm_tile - 1) / gemm_tile * ((n + gemm_tile - 1) / gemm_tile);
  if (count == 0 || tiles == 0) return;
  const dim3 grid(static_cast<unsigned>(tiles), static_cast<unsigned>(count < 65535 ? count : 65535));
  launch(gemm_kernel<>, grid, gemm_tile * gemm_tile, 0, stream, MatrixOf(a), MatrixOf(b), MatrixOf(c), Walk<3>(batches),
         count, options.bias.as<const float>(), options.bias ? options.bias.strides[0] : 0,
         static_cast<float>(options.alpha), options.accumulate);
}

}  // namespace mixtape::kernels::device
