// rows on a GPU: one block a row, its operands as floats in shared memory; what broadcasts to all rows is loaded once.
// The same formulas as on the CPU, whose Lanes are here the threads of the block.
#pragma once

#include "core/kernels/block.cuh"
#include "core/kernels/fold.cuh"
#include "core/kernels/place.cuh"

namespace mixtape::kernels::device {

inline constexpr int64_t row_piece = 16;              // rows whose sums are taken together
inline constexpr size_t row_bytes_most = 200 * 1024;  // longer ones have their room in global memory
inline constexpr int64_t row_blocks_most = 2048, long_row_blocks = 264;

/// Where the arrays of a row lie, in floats from the beginning of a block's room; -1 for a statistic, of which each
/// thread has its own.
template <int operands>
struct RowRooms {
  int64_t at[operands];
  int64_t floats = 0;       // of one block
  int64_t summed = 0;       // the first of these are the sums over rows
  float* global = nullptr;  // null: in shared memory
};

/// Room for all operands that the formula may touch; those of sums first, so that they leave the block together.
template <int operands>
RowRooms<operands> row_rooms(const Places<operands>& places, int64_t n) {
  RowRooms<operands> rooms;
  const int64_t one = (n + 16) / 16 * 16;  // never nothing: an absent statistic is written even beside an empty row
  for (int pass = 0; pass < 2; ++pass) {
    for (int k = 0; k < operands; ++k) {
      const Place& p = places.at[k];
      if (p.sums != (pass == 0)) continue;
      const bool needed = p.data || p.writes || p.random || p.sums;
      rooms.at[k] = p.statistic || !needed ? -1 : rooms.floats;
      if (rooms.at[k] >= 0) rooms.floats += one;
    }
    if (pass == 0) rooms.summed = rooms.floats;
  }
  return rooms;
}

/// All threads bring n elements into `row`, converted.
inline __device__ void load_row(const void* data, DType dtype, int64_t at, int64_t stride, int64_t n, float* row) {
  const uintptr_t first =
      reinterpret_cast<uintptr_t>(data) + static_cast<uintptr_t>(at * (dtype == DType::f32 ? 4 : 2));
  const bool moves = dtype == DType::f32 ? first % 16 == 0 : has_16_bits(dtype) && first % 8 == 0;
  if (stride != 1 || n % lanes != 0 || !moves) {
    for (int64_t i = threadIdx.x; i < n; i += blockDim.x) row[i] = load(data, dtype, at + i * stride);
    return;
  }
  for (int64_t i = int64_t{threadIdx.x} * lanes; i < n; i += int64_t{blockDim.x} * lanes) {
    float four[lanes];
    load_four(data, dtype, at + i, four);
    *reinterpret_cast<float4*>(row + i) = float4{four[0], four[1], four[2], four[3]};
  }
}

inline __device__ void store_row(const float* row, void* data, DType dtype, int64_t at, int64_t stride, int64_t n) {
  const uintptr_t first =
      reinterpret_cast<uintptr_t>(data) + static_cast<uintptr_t>(at * (dtype == DType::f32 ? 4 : 2));
  if (stride != 1 || n % lanes != 0 || first % (has_16_bits(dtype) ? 8 : 16) != 0) {
    for (int64_t i = threadIdx.x; i < n; i += blockDim.x) store(data, dtype, at + i * stride, row[i]);
    return;
  }
  for (int64_t i = int64_t{threadIdx.x} * lanes; i < n; i += int64_t{blockDim.x} * lanes) {
    const float4 four = *reinterpret_cast<const float4*>(row + i);
    store_four(data, dtype, at + i, {four.x, four.y, four.z, four.w});
  }
}

/// One row after the other through the arrays of one block.
template <int operands>
struct RowStage {
  const Places<operands>& places;
  const RowRooms<operands>& rooms;
  float* room;
  int64_t n;
  float statistic[operands];
  int64_t loaded[operands];  // where each read operand was taken from: rows that share one load it once

  __device__ RowStage(const Places<operands>& p, const RowRooms<operands>& r, float* own, int64_t length)
      : places(p), rooms(r), room(own), n(length) {
    for (int k = 0; k < operands; ++k) statistic[k] = 0, loaded[k] = -1;
  }
  /// Null for what is absent and only read.
  __device__ float* array(int k) {
    if (places.at[k].statistic) return &statistic[k];
    return rooms.at[k] < 0 ? nullptr : room + rooms.at[k];
  }
  __device__ void bring(int k, int64_t row, int64_t at) {
    const Place& p = places.at[k];
    float* to = array(k);
    if (p.sums || !to || (p.writes && !p.random)) return;
    if (p.random) {
      const int64_t drawn = p.data ? static_cast<const int64_t*>(p.data)[at] : row;
      for (int64_t i = int64_t{threadIdx.x} * lanes; i < n; i += int64_t{blockDim.x} * lanes) {
        float four[lanes];
        draw(p.draw, drawn * n + i, four);
        for (int j = 0; j < lanes && i + j < n; ++j) to[i + j] = four[j];
      }
      return;
    }
    const bool picks = p.table != nullptr;
    if (picks) {
      const int64_t picked = static_cast<const int64_t*>(p.data)[at];
      if (picked < 0 || picked >= p.table_rows) return lose(k, to);  // a GPU's indices are not looked at before
      at = picked * p.table_stride;
    }
    if (at == loaded[k]) return;
    loaded[k] = at;
    if (p.statistic) {
      *to = load(p.data, p.dtype, at);
    } else {
      load_row(picks ? p.table : p.data, p.dtype, at, p.inner_stride, n, to);
    }
  }
  __device__ void lose(int k, float* to) {
    loaded[k] = -1;
    for (int64_t i = threadIdx.x; i < n; i += blockDim.x) to[i] = static_cast<float>(NAN);
  }
  __device__ void put(int k, int64_t at) {
    const Place& p = places.at[k];
    if (!p.writes || !p.data) return;
    if (!p.statistic) return store_row(array(k), p.data, p.dtype, at, p.inner_stride, n);
    if (threadIdx.x == 0) store(p.data, p.dtype, at, statistic[k]);
  }
};

template <class F, int operands, size_t... K>
__device__ void call_row(const F& f, const BlockLanes& block, int64_t row, RowStage<operands>& stage,
                         std::index_sequence<K...>) {
  f(block, stage.n, row, stage.array(K)...);
}

/// Rows first, first + step, … below `last`, whose sums are left in parts[blockIdx.x]. Two barriers a row: one between
/// loading and the formula, one between the formula and storing; what is loaded and what is stored never share arrays.
template <class F, int operands>
__global__ void rows_kernel(F f, const __grid_constant__ Places<operands> places,
                            const __grid_constant__ Walk<operands> outer,
                            const __grid_constant__ RowRooms<operands> rooms, int64_t rows, int64_t n, float* parts) {
  float* room = rooms.global ? rooms.global + int64_t{blockIdx.x} * rooms.floats : dynamic_shared<float>();
  const BlockLanes block;
  RowStage<operands> stage(places, rooms, room, n);
  for (int64_t i = threadIdx.x; i < rooms.summed; i += blockDim.x) room[i] = 0;
  const int64_t first = parts ? int64_t{blockIdx.x} * row_piece : int64_t{blockIdx.x};
  const int64_t step = parts ? 1 : int64_t{gridDim.x};
  const int64_t last = parts && first + row_piece < rows ? first + row_piece : rows;
  for (int64_t row = first; row < last; row += step) {
    int64_t at[operands] = {};
    outer.add_offsets(row, at);
    for (int k = 0; k < operands; ++k) stage.bring(k, row, at[k]);
    __syncthreads();
    call_row<F, operands>(f, block, row, stage, std::make_index_sequence<operands>());
    __syncthreads();
    for (int k = 0; k < operands; ++k) stage.put(k, at[k]);
  }
  for (int64_t i = threadIdx.x; i < rooms.summed; i += blockDim.x)
    parts[int64_t{blockIdx.x} * rooms.summed + i] = room[i];
}

/// One operand's sums: those of the pieces, in their order.
template <int = 0>
__global__ void row_sums_kernel(Place sum, const float* parts, int64_t step, int64_t pieces, int64_t n) {
  const int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (i >= n) return;
  float total = 0;
  for (int64_t piece = 0; piece < pieces; ++piece) total += parts[piece * step + i];
  store(sum.data, sum.dtype, i * sum.inner_stride, total);
}

inline unsigned row_threads(int64_t n) {
  const int64_t wanted = (n / lanes + warp_threads - 1) / warp_threads * warp_threads;
  return static_cast<unsigned>(wanted < warp_threads ? warp_threads : wanted > 512 ? 512 : wanted);
}

template <class F, int operands>
void rows(const F& f, const Shape& full_shape, const Operand* given, cudaStream_t stream = nullptr) {
  View views[operands];
  views_of<operands>(given, views);
  const int rank = full_shape.rank();
  const int64_t n = rank == 0 ? 1 : full_shape.back();
  const Plan plan = make_plan(full_shape, views, operands, rank == 0 ? 0u : (1u << (rank - 1)) - 1u);
  const Places<operands> places = places_of<operands>(given);
  const Walk<operands> outer(plan);
  const int64_t count = plan.count();
  RowRooms<operands> rooms = row_rooms(places, n);
  const bool sums = rooms.summed > 0, shared = static_cast<size_t>(rooms.floats) * sizeof(float) <= row_bytes_most;
  const int64_t pieces = (count + row_piece - 1) / row_piece, most = shared ? row_blocks_most : long_row_blocks;
  const int64_t blocks = sums ? pieces : count < most ? count : most;
  const Scratch<float> long_rows(shared ? 1 : blocks * rooms.floats, stream);
  const Scratch<float> parts(sums ? pieces * rooms.summed : 1, stream);
  if (!shared) rooms.global = long_rows.data();
  if (count > 0) {
    launch(rows_kernel<F, operands>, static_cast<unsigned>(blocks), row_threads(n),
           shared ? static_cast<size_t>(rooms.floats) * sizeof(float) : 0, stream, f, places, outer, rooms, count, n,
           sums ? parts.data() : nullptr);
  }
  for (int k = 0; k < operands; ++k) {
    if (!given[k].sums || !given[k].view || n == 0) continue;
    launch(row_sums_kernel<>, blocks_of(n, fold_threads), fold_threads, 0, stream, places.at[k],
           parts.data() + rooms.at[k], rooms.summed, pieces, n);
  }
}

}  // namespace mixtape::kernels::device
