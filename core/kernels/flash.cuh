// Attention on a GPU, forward: softmax(scale·q·kᵀ)·v of every head, sequence by sequence, without a [seq, seq] in
// memory. A block owns up to 64 queries, a warp 16 of them; keys and values pass by in tiles, the softmax is kept as
// a largest score and a sum that are corrected when a larger score comes (Dao, "FlashAttention-2", 2023). Sums are
// f32, products of 16-bit operands are those of the tensor core, and no two blocks write one place.
#pragma once

#include "core/kernels/flash_block.cuh"

namespace mixtape::kernels::device {

inline constexpr int64_t flash_columns_most = 128;  // of a head

/// What the softmax of a warp's 16 rows has come to; this lane's rows are lane/4 and lane/4 + 8.
template <int width>
struct OnlineRows {
  float largest[2] = {-static_cast<float>(INFINITY), -static_cast<float>(INFINITY)};
  float total[2] = {};  // of this lane's columns
  float sums[width / 8][4] = {};
  bool hidden = false;  // some key was

  /// Scores of a tile, in powers of two, become weights.
  __device__ void add(float (&scores)[tile_chunks][2][4]) {
    MIXTAPE_UNROLL
    for (int row = 0; row < 2; ++row) {
      float most = -static_cast<float>(INFINITY);
      MIXTAPE_UNROLL
      for (int i = 0; i < tile_chunks * 4; ++i) most = fmaxf(most, scores[i / 4][i / 2 % 2][2 * row + i % 2]);
      most = fmaxf(largest[row], reduce_row(most, [](float a, float b) { return fmaxf(a, b); }));
      const float shift = most == -static_cast<float>(INFINITY) ? 0.0f : most;  // nothing seen yet: no inf - inf
      const float correction = power_of_two(largest[row] - shift);
      largest[row] = most;
      total[row] *= correction;
      MIXTAPE_UNROLL
      for (int n = 0; n < width / 8; ++n) sums[n][2 * row] *= correction, sums[n][2 * row + 1] *= correction;
      MIXTAPE_UNROLL
      for (int i = 0; i < tile_chunks * 4; ++i) {
        float& score = scores[i / 4][i / 2 % 2][2 * row + i % 2];
        score = power_of_two(score - shift);
        total[row] += score;
      }
    }
  }
  /// What the weights of a row are divided by, in all four lanes of it; a row that sees nothing has 0, unless nothing
  /// was hidden: then all of its scores are -inf, and it has no softmax.
  __device__ float divisor(int row) const {
    const float all = sum_of_row(total[row]);
    return all == 0.0f && !hidden ? static_cast<float>(NAN) : all;
  }
};

/// log Σ exp(score) from a largest score in powers of two and the sum above it.
inline __device__ float log_total_of(float largest, float divisor) {
  return divisor == 0.0f ? -static_cast<float>(INFINITY) : (largest + log2f(divisor)) * 0.693147181f;
}

template <class T, int width>
struct ForwardRoom {
  Tile<T, width> q;
  KeyTile<T, width> keys;
  T* left;
  size_t bytes;
  MIXTAPE_HD ForwardRoom(Pieces pieces, int warps)
      : q(pieces.tile<T, width>(warps * warp_rows)),
        keys(pieces),
        left(pieces.take<T>(warps * left_room<T>)),
        bytes(pieces.bytes()) {}
};

/// The weights of one tile of keys, and their sum of values; `first` is the warp's first row in the block.
template <class T, int width>
__device__ void forward_step(const FlashProblem& p, const Left<T, width>& q, const KeyTile<T, width>& tile, int keys,
                             uint64_t seen, const KeptBits& kept, int first, T* left_of_warp, OnlineRows<width>& rows) {
  float scores[tile_chunks][2][4];
  const int column = lane_of_thread() % 4 * 2, row = first + lane_of_thread() / 4;
  rows.hidden |= seen != all_bits(keys);
  const uint64_t visible = seen >> column;
  MIXTAPE_UNROLL
  for (int chunk = 0; chunk < tile_chunks; ++chunk) {
    if (chunk * chunk_rows < keys) multiply_rows(q, tile.k, chunk * chunk_rows, scores[chunk]);
    MIXTAPE_UNROLL
    for (int i = 0; i < 8; ++i) {
      float& score = scores[chunk][i / 4][i % 4];
      const bool sees = visible >> (chunk * chunk_rows + i / 4 * 8 + i % 2) & 1;
      score = sees ? score * p.scale_of_two : -static_cast<float>(INFINITY);
    }
  }
  rows.add(scores);
  const bool drops = p.threshold > 0;
  const uint64_t keeps[2] = {drops ? kept.row(row) >> column : 0, drops ? kept.row(row + 8) >> column : 0};
  MIXTAPE_UNROLL
  for (int chunk = 0; chunk < tile_chunks; ++chunk) {
    if (chunk * chunk_rows >= keys) continue;
    MIXTAPE_UNROLL
    for (int i = 0; i < 8; ++i) {
      const bool keep = !drops || keeps[i % 4 / 2] >> (chunk * chunk_rows + i / 4 * 8 + i % 2) & 1;
      if (!keep) scores[chunk][i / 4][i % 4] = 0;
    }
    Left<T, chunk_rows> left;
    left.take(scores[chunk], left_of_warp);
    multiply_add(left, tile.v, chunk * chunk_rows, rows.sums);
  }
}

template <class T, int width>
__global__ void __launch_bounds__(flash_threads, flash_blocks)
    flash_kernel(const __grid_constant__ FlashProblem p, int blocks_a_head, HeadRows<const T> q, HeadRows<const T> k,
                 HeadRows<const T> v, HeadRows<T> out, float* log_totals) {
  const FlashItem item(p, blocks_a_head);
  if (!item.sound) return spoil(p, item, out, true);
  const int own = item.own(item.queries);
  if (own <= 0) return;
  const int warp = static_cast<int>(threadIdx.x / warp_threads), first = warp * warp_rows;
  const ForwardRoom<T, width> room(Pieces(reinterpret_cast<uintptr_t>(dynamic_shared<unsigned char>())),
                                   static_cast<int>(blockDim.x / warp_threads));
  load_tile(q, item.query + item.first, own, item.head, p.columns, room.q);
  __syncthreads();
  Left<T, width> queries;
  OnlineRows<width> rows;
  queries.load(room.q, first);
  int loaded = -1;
  for_key_tiles(p, item, k, v, room.keys, loaded, [&](int keys, uint64_t seen, const KeptBits& kept) {
    if (first >= own) return;
    forward_step(p, queries, room.keys, keys, seen, kept, first, room.left + warp * left_room<T>, rows);
  });
  if (first >= own) return;
  float factor[2];
  for (int side = 0; side < 2; ++side) {
    const float divisor = rows.divisor(side);
    factor[side] = divisor == 0.0f ? 0.0f : p.kept / divisor;
    const int row = first + lane_of_thread() / 4 + 8 * side;
    if (log_totals && lane_of_thread() % 4 == 0 && row < own) {
      log_totals[item.head * p.query_rows + item.query + item.first + row] = log_total_of(rows.largest[side], divisor);
    }
  }
  store_rows(rows.sums, factor, room.q, first, out, item.query + item.first + first, own - first, item.head, p.columns);
}

/// Calls f(TypeTag<T>, std::integral_constant<int, width>) for a dtype and heads of so many columns: those of 32 and 64
/// have kernels of their own, others pass as the next larger of 32, 64 and 128, with zeros.
template <class F>
void with_flash_instance(DType dtype, int64_t columns, const F& f) {
  if (columns > flash_columns_most) {
    fail(ErrorKind::internal, "E-DEVICE",
         message("attention on a GPU: heads of ", columns, " columns, expected at most ", flash_columns_most,
                 "; take more heads, or the composed attention"));
  }
  if (!(dtype == DType::f32 || is_low(dtype))) {
    fail(ErrorKind::internal, "E-DEVICE",
         "attention on a GPU is f32, f16 or bf16; f64 is for gradient checks on the CPU");
  }
  dispatch_float(dtype, "attention", [&](auto tag) {
    if constexpr (!std::is_same_v<typename decltype(tag)::type, double>) {
      if (columns <= 32) return f(tag, std::integral_constant<int, 32>{});
      if (columns <= 64) return f(tag, std::integral_constant<int, 64>{});
      f(tag, std::integral_constant<int, 128>{});
    }
  });
}

/// Warps for heads that have at most so many rows: nobody waits where there is nothing to do.
inline int flash_warps(int64_t rows) { return rows > 32 ? 4 : rows > 16 ? 2 : 1; }

/// How a kernel is cut into blocks: each owns `warps`·16 of `rows`.
struct FlashGrid {
  int warps, blocks_a_head;
  unsigned blocks, threads;
  FlashGrid(const AttentionHeads& all, int64_t rows)
      : warps(flash_warps(rows)),
        blocks_a_head(static_cast<int>((rows + warps * warp_rows - 1) / (warps * warp_rows))) {
    blocks = static_cast<unsigned>((all.offsets.shape[0] - 1) * all.heads * blocks_a_head);
    threads = static_cast<unsigned>(warps) * warp_threads;
  }
};

/// As ops::attend: q, k, v and out of one dtype, f32 or of 16 bits. `log_totals` f32 [heads, rows of q], contiguous, or
/// absent: for each query log Σ exp(its scores), -inf where it sees nothing.
inline void attend(const AttentionHeads& heads, const View& q, const View& k, const View& v, const View& out,
                   const View& log_totals = {}, cudaStream_t stream = nullptr) {
  if (out.numel() == 0) return;
  const FlashProblem problem(heads, q, k);
  with_flash_instance(q.dtype, problem.columns, [&](auto tag, auto width) {
    using T = typename decltype(tag)::type;
    const FlashGrid grid(heads, problem.one_query ? 1 : heads.longest);
    const ForwardRoom<T, width()> room(Pieces(0), grid.warps);
    launch(flash_kernel<T, width()>, grid.blocks, grid.threads, room.bytes, stream, problem, grid.blocks_a_head,
           HeadRows<const T>(q, problem.columns), HeadRows<const T>(k, problem.columns),
           HeadRows<const T>(v, problem.columns), HeadRows<T>(out, problem.columns), log_totals.as<float>());
  });
}

}  // namespace mixtape::kernels::device
