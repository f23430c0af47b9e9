// Rows picked by an index on a GPU, and the sums that are their way back: the rows that add up to one are brought
// together by a stable sort, and each sum is taken in the order of the index. No atomics on floats, so no luck. Float
// matrices move four columns at a time; what else kernels::gather_rows takes, one element at a time (pick.cuh).
#pragma once

#include "core/kernels/gather.h"
#include "core/kernels/loops.h"

#include "core/kernels/pick.cuh"

namespace mixtape::kernels::device {

/// The rows of a matrix, and whether four neighbours of each move together.
struct RowsOf {
  void* data;
  DType dtype;
  int64_t count, n, stride, inner;

  explicit RowsOf(const View& v)
      : data(v.data), dtype(v.dtype), count(v.shape[0]), n(v.shape[1]), stride(v.strides[0]), inner(v.strides[1]) {}
  bool in_fours() const { return inner == 1 && n % lanes == 0 && stride % lanes == 0 && aligned_for_four(data, dtype); }
};

template <int width>
__device__ void load_columns(const RowsOf& rows, int64_t row, int64_t column, float (&out)[width]) {
  if constexpr (width == lanes) {
    load_four(rows.data, rows.dtype, row * rows.stride + column, out);
  } else {
    out[0] = load(rows.data, rows.dtype, row * rows.stride + column * rows.inner);
  }
}
template <int width>
__device__ void store_columns(const RowsOf& rows, int64_t row, int64_t column, const float (&value)[width]) {
  if constexpr (width == lanes) {
    store_four(rows.data, rows.dtype, row * rows.stride + column, value);
  } else {
    store(rows.data, rows.dtype, row * rows.stride + column * rows.inner, value[0]);
  }
}

/// out[i] = table[index[i]]; an index that names no row gives NaN: a GPU's indices are not looked at before.
template <int width>
__global__ void gather_kernel(RowsOf table, RowsOf out, const int64_t* index, Divider columns) {
  const int64_t step = int64_t{gridDim.x} * blockDim.x, items = out.count * columns.size;
  for (int64_t item = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; item < items; item += step) {
    const int64_t row = columns.quotient(item), column = (item - row * columns.size) * width, from = index[row];
    float value[width];
    for (float& lane : value) lane = static_cast<float>(NAN);
    if (from >= 0 && from < table.count) load_columns(table, from, column, value);
    store_columns(out, row, column, value);
  }
}

/// As kernels::gather_rows, which has checked nothing of the index.
inline void gather_rows(const View& source, const View& index, const View& out, cudaStream_t stream = nullptr) {
  if (out.numel() == 0) return;
  const IndexList list(index, stream);
  if (!is_float_matrix(source) || !is_float_matrix(out)) return pick_rows(source, list, out, stream);
  const RowsOf table(source), target(out);
  const int64_t* places = list.data();
  const auto start = [&](auto kernel, int width) {
    const int64_t columns = target.n / width;
    launch(kernel, grid_for(target.count * columns, 256), 256, 0, stream, table, target, places, Divider(columns));
  };
  table.in_fours() && target.in_fours() ? start(gather_kernel<lanes>, lanes) : start(gather_kernel<1>, 1);
}

/// One block an output row: the input rows of its segment, added in chunks as the CPU adds them.
template <int width>
__global__ void sum_rows_kernel(RowsOf in, RowsOf out, const uint32_t* keys, const uint32_t* order, int64_t count) {
  constexpr int64_t chunk = 256;  // keeps the rounding error at chunk + terms/chunk
  for (int64_t row = blockIdx.x; row < out.count; row += gridDim.x) {
    const int64_t begin = first_not_below(keys, count, static_cast<uint32_t>(row));
    const int64_t end = first_not_below(keys, count, static_cast<uint32_t>(row) + 1);
    for (int64_t column = int64_t{threadIdx.x} * width; column < out.n; column += int64_t{blockDim.x} * width) {
      float total[width] = {};
      for (int64_t first = begin; first < end; first += chunk) {
        float part[width] = {};
        for (int64_t i = first; i < end && i < first + chunk; ++i) {
          float value[width];
          load_columns(in, order[i], column, value);
          for (int j = 0; j < width; ++j) part[j] += value[j];
        }
        for (int j = 0; j < width; ++j) total[j] += part[j];
      }
      store_columns(out, row, column, total);
    }
  }
}

/// Keys of the sort; what adds to no row comes last.
template <int = 0>
__global__ void row_keys_kernel(const int64_t* index, int64_t count, int64_t rows, int64_t skipped, uint32_t* keys,
                                uint32_t* order) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= count) return;
  const int64_t row = index[i];
  keys[i] = static_cast<uint32_t>(row < 0 || row >= rows || row == skipped ? rows : row);
  order[i] = static_cast<uint32_t>(i);
}

/// As kernels::sum_rows; fewer than 2^31 rows each.
inline void sum_rows(const View& in, const View& index, const View& out, int64_t skipped = -1,
                     cudaStream_t stream = nullptr) {
  if (out.numel() == 0) return;
  const IndexList list(index, stream);
  const int64_t count = list.size(), rows = out.shape[0];
  SortedPairs pairs(count, stream);
  if (count > 0) {
    launch(row_keys_kernel<>, static_cast<unsigned>((count + 255) / 256), 256, 0, stream, list.data(), count, rows,
           skipped, pairs.keys(), pairs.values());
    pairs.sort(static_cast<uint32_t>(rows));
  }
  if (!is_float_matrix(in) || !is_float_matrix(out)) return sum_picked_rows(in, pairs, count, out, stream);
  const RowsOf source(in), target(out);
  const auto start = [&](auto kernel, int width) {
    const int64_t wanted = (target.n / width + warp_threads - 1) / warp_threads * warp_threads;
    const unsigned threads = static_cast<unsigned>(wanted < 256 ? wanted : 256);
    launch(kernel, grid_for(target.count, 1), threads, 0, stream, source, target, pairs.keys(), pairs.values(), count);
  };
  source.in_fours() && target.in_fours() ? start(sum_rows_kernel<lanes>, lanes) : start(sum_rows_kernel<1>, 1);
}

}  // namespace mixtape::kernels::device
