// Attention on a GPU, back: the weights are computed again from each row's log Σ exp(scores). With d = Σ w·dw of a row,
// the gradient of a score is w·(dw - d). Two kernels, so that every sum has one owner and one order: one owns queries
// and gives dq (and before it, where they were not saved, the rows' log Σ exp and d), the other owns keys and gives dk
// and dv (Dao, "FlashAttention-2", 2023, algorithm 2, without its atomic additions).
#pragma once

#include "core/kernels/flash.cuh"

namespace mixtape::kernels::device {

/// Of each query of each head, [heads, rows]: log Σ exp(scores), and d.
struct RowStatistics {
  float *log_totals, *slopes;
  int64_t rows;
  bool known;  // log_totals, and the output, from which d is dy·out

  __device__ int64_t place(const FlashItem& item, int row) const { return item.head * rows + item.query + row; }
};

/// For 2^(score - this): a query that saw nothing has no weights.
inline __device__ float in_powers_of_two(float log_total) {
  const float infinity = static_cast<float>(INFINITY);
  return log_total == -infinity ? infinity : log_total * 1.44269504f;
}

/// Scores and the slopes of their weights for a chunk of a tile, in places of a product's result.
struct ScoreChunk {
  float scores[2][4], slopes[2][4];

  template <class T, int width>
  __device__ ScoreChunk(const Left<T, width>& q, const Tile<T, width>& k, const Left<T, width>& dy,
                        const Tile<T, width>& v, int first) {
    multiply_rows(q, k, first, scores);
    multiply_rows(dy, v, first, slopes);
  }
};

template <class T, int width>
struct QueryRoom {
  Tile<T, width> q, dy;
  KeyTile<T, width> keys;
  T* left;
  size_t bytes;
  MIXTAPE_HD QueryRoom(Pieces pieces, int warps)
      : q(pieces.tile<T, width>(warps * warp_rows)),
        dy(pieces.tile<T, width>(warps * warp_rows)),
        keys(pieces),
        left(pieces.take<T>(warps * left_room<T>)),
        bytes(pieces.bytes()) {}
};

/// log Σ exp and d of this lane's columns of one row, found together: d is a mean with the weights of the softmax.
struct OnlineMean {
  float largest = -static_cast<float>(INFINITY), total = 0, weighted = 0;

  __device__ void move(float most) {
    const float shift = most == -static_cast<float>(INFINITY) ? 0.0f : most;
    const float correction = power_of_two(largest - shift);
    total *= correction, weighted *= correction;
    largest = most;
  }
  /// The scores of a row in a chunk; `row` 0: of lane/4, 1: of lane/4 + 8.
  __device__ void add(const ScoreChunk& chunk, int row) {
    float most = largest;
    MIXTAPE_UNROLL
    for (int i = 0; i < 4; ++i) most = fmaxf(most, chunk.scores[i / 2][2 * row + i % 2]);
    move(most);
    const float shift = most == -static_cast<float>(INFINITY) ? 0.0f : most;
    MIXTAPE_UNROLL
    for (int i = 0; i < 4; ++i) {
      const float weight = power_of_two(chunk.scores[i / 2][2 * row + i % 2] - shift);
      total += weight;
      if (weight > 0) weighted += weight * chunk.slopes[i / 2][2 * row + i % 2];  // 0·inf is 0 here, as on the CPU
    }
  }
  /// Of the four lanes that hold the row.
  __device__ void join() {
    move(reduce_row(largest, [](float a, float b) { return fmaxf(a, b); }));
    total = sum_of_row(total);
    weighted = sum_of_row(weighted);
  }
};

/// What a warp of queries holds.
template <class T, int width>
struct QueryWarp {
  const FlashProblem& p;
  int first;  // its first row in the block
  Left<T, width> q, dy;
  float log_total[2], slope[2];  // the former in powers of two

  /// One chunk: hidden scores -inf, slopes behind dropout.
  __device__ ScoreChunk chunk_of(const KeyTile<T, width>& tile, int chunk, uint64_t seen, const KeptBits& kept) const {
    ScoreChunk out(q, tile.k, dy, tile.v, chunk * chunk_rows);
    const int row = first + lane_of_thread() / 4, from = chunk * chunk_rows + lane_of_thread() % 4 * 2;
    const bool drops = p.threshold > 0;
    const uint64_t keeps[2] = {drops ? kept.row(row) >> from : ~uint64_t{0},
                               drops ? kept.row(row + 8) >> from : ~uint64_t{0}};
    MIXTAPE_UNROLL
    for (int i = 0; i < 8; ++i) {
      const int place = i / 4 * 8 + i % 2;
      float &score = out.scores[i / 4][i % 4], &change = out.slopes[i / 4][i % 4];
      score = seen >> from >> place & 1 ? score * p.scale_of_two : -static_cast<float>(INFINITY);
      change = keeps[i % 4 / 2] >> place & 1 ? change * p.kept : 0.0f;
    }
    return out;
  }

  /// From what the forward saved; `out` is its output.
  __device__ void read(const FlashItem& item, const RowStatistics& saved, const Tile<T, width>& dy_tile,
                       const HeadRows<const T>& out) {
    for (int side = 0; side < 2; ++side) {
      const int row = first + lane_of_thread() / 4 + 8 * side, of_head = item.first + row;
      const bool there = of_head < item.queries;
      float sum = 0;
      for (int i = lane_of_thread() % 4; i < p.columns && there; i += 4) {
        sum += to_float(dy_tile.row(row)[i]) * to_float(*out.at(item.query + of_head, item.head * p.columns + i));
      }
      slope[side] = sum_of_row(sum);
      log_total[side] = there ? in_powers_of_two(saved.log_totals[saved.place(item, of_head)]) : 0.0f;
    }
  }
  /// In a pass over the keys: for_chunks(body) calls body(chunk, its number, whether keys of its tile are hidden).
  template <class ForChunks>
  __device__ void find(const ForChunks& for_chunks) {
    OnlineMean mean[2];
    bool hidden = false;
    for_chunks([&](const ScoreChunk& c, int, bool some_hidden) {
      hidden |= some_hidden;
      for (int side = 0; side < 2; ++side) mean[side].add(c, side);
    });
    for (int side = 0; side < 2; ++side) {
      mean[side].join();
      const float total = mean[side].total, nothing = static_cast<float>(hidden ? INFINITY : NAN);
      slope[side] = total > 0 ? mean[side].weighted / total : 0.0f;
      log_total[side] = total == 0.0f ? nothing : mean[side].largest + log2f(total);  // as OnlineRows::divisor
    }
  }
  __device__ void write(const FlashItem& item, const RowStatistics& to) const {
    if (lane_of_thread() % 4 != 0) return;
    for (int side = 0; side < 2; ++side) {
      const int of_head = item.first + first + lane_of_thread() / 4 + 8 * side;
      if (of_head >= item.queries) continue;
      to.slopes[to.place(item, of_head)] = slope[side];
      to.log_totals[to.place(item, of_head)] = log_total[side];
    }
  }
  /// dq += the slopes of a chunk's scores · k.
  __device__ void add(ScoreChunk& c, const KeyTile<T, width>& tile, int chunk, T* room,
                      float (&sums)[width / 8][4]) const {
    MIXTAPE_UNROLL
    for (int i = 0; i < 8; ++i) {
      const float weight = power_of_two(c.scores[i / 4][i % 4] - log_total[i % 4 / 2]);
      float& change = c.slopes[i / 4][i % 4];
      change = weight > 0 ? weight * (change - slope[i % 4 / 2]) : 0.0f;
    }
    Left<T, chunk_rows> left;
    left.take(c.slopes, room);
    multiply_add(left, tile.k, chunk * chunk_rows, sums);
  }
};

/// Log totals and d come from `saved` and `out`, or are found in a pass of their own; either way `found` gets them, for
/// the kernel of the keys, log totals in powers of two.
template <class T, int width>
__global__ void __launch_bounds__(flash_threads, flash_blocks)
    query_gradient_kernel(const __grid_constant__ FlashProblem p, int blocks_a_head, HeadRows<const T> q,
                          HeadRows<const T> k, HeadRows<const T> v, HeadRows<const T> dy, HeadRows<const T> out,
                          HeadRows<T> dq, RowStatistics saved, RowStatistics found) {
  const FlashItem item(p, blocks_a_head);
  if (!item.sound) return spoil(p, item, dq, true);
  const int own = item.own(item.queries), warp = static_cast<int>(threadIdx.x / warp_threads);
  if (own <= 0) return;
  const QueryRoom<T, width> room(Pieces(reinterpret_cast<uintptr_t>(dynamic_shared<unsigned char>())),
                                 static_cast<int>(blockDim.x / warp_threads));
  load_tile(q, item.query + item.first, own, item.head, p.columns, room.q);
  load_tile(dy, item.query + item.first, own, item.head, p.columns, room.dy);
  __syncthreads();
  QueryWarp<T, width> rows{p, warp * warp_rows, {}, {}, {}, {}};
  rows.q.load(room.q, rows.first);
  rows.dy.load(room.dy, rows.first);
  int loaded = -1;
  const auto for_chunks = [&](const auto& body) {
    for_key_tiles(p, item, k, v, room.keys, loaded, [&](int keys, uint64_t seen, const KeptBits& kept) {
      if (rows.first >= own) return;
      for (int chunk = 0; chunk * chunk_rows < keys; ++chunk) {
        ScoreChunk c = rows.chunk_of(room.keys, chunk, seen, kept);
        body(c, chunk, seen != all_bits(keys));
      }
    });
  };
  if (saved.known) {
    rows.read(item, saved, room.dy, out);
  } else {
    rows.find(for_chunks);
  }
  if (rows.first < own) rows.write(item, found);
  float sums[width / 8][4] = {};
  for_chunks(
      [&](ScoreChunk& c, int chunk, bool) { rows.add(c, room.keys, chunk, room.left + warp * left_room<T>, sums); });
  if (rows.first >= own) return;
  store_rows(sums, {p.scale, p.scale}, room.q, rows.first, dq, item.query + item.first + rows.first, own - rows.first,
             item.head, p.columns);
}

template <class T, int width>
struct KeyRoom {
  Tile<T, width> k, v, q, dy;
  T* left;
  float *log_totals, *slopes;
  uint8_t* kept;
  uint32_t* seen;
  size_t bytes;
  MIXTAPE_HD KeyRoom(Pieces pieces, int warps)
      : k(pieces.tile<T, width>(warps * warp_rows)),
        v(pieces.tile<T, width>(warps * warp_rows)),
        q(pieces.tile<T, width>(tile_rows)),
        dy(pieces.tile<T, width>(tile_rows)),
        left(pieces.take<T>(warps * left_room<T>)),
        log_totals(pieces.take<float>(tile_rows)),
        slopes(pieces.take<float>(tile_rows)),
        kept(pieces.take<uint8_t>(tile_rows * KeptBits::row_bytes)),
        seen(pieces.take<uint32_t>(2)),
        bytes(pieces.bytes()) {}
};

/// What a warp of keys holds.
template <class T, int width>
struct KeyWarp {
  const FlashProblem& p;
  int first;  // its first row in the block
  Left<T, width> k, v;
  bool seen[2] = {};
  float dk[width / 8][4] = {}, dv[width / 8][4] = {};

  /// A chunk of queries: rows are keys here, columns are queries.
  __device__ void add(const KeyRoom<T, width>& room, int chunk, const KeptBits& kept, T* left_of_warp) {
    ScoreChunk c(k, room.q, v, room.dy, chunk * chunk_rows);
    const int key = first + lane_of_thread() / 4, from = chunk * chunk_rows + lane_of_thread() % 4 * 2;
    MIXTAPE_UNROLL
    for (int i = 0; i < 8; ++i) {
      const int row = i % 4 / 2, query = from + i / 4 * 8 + i % 2;
      float &score = c.scores[i / 4][i % 4], &change = c.slopes[i / 4][i % 4];
      const float weight = seen[row] ? power_of_two(score * p.scale_of_two - room.log_totals[query]) : 0.0f;
      const bool keep = p.threshold == 0 || kept.at(query, key + 8 * row);
      score = keep ? weight : 0.0f;
      const float of_weight = keep ? change * p.kept : 0.0f;
      change = weight > 0 ? weight * (of_weight - room.slopes[query]) : 0.0f;
    }
    Left<T, chunk_rows> left;
    left.take(c.scores, left_of_warp);
    multiply_add(left, room.dy, chunk * chunk_rows, dv);
    left.take(c.slopes, left_of_warp);
    multiply_add(left, room.q, chunk * chunk_rows, dk);
  }
};

/// The block brings the statistics of queries; what is missing to whole chunks has no weights.
inline __device__ void load_statistics(const FlashItem& item, const RowStatistics& from, int first, int queries,
                                       float* log_totals, float* slopes) {
  const int count = whole_chunks(queries);
  for (int i = static_cast<int>(threadIdx.x); i < count; i += static_cast<int>(blockDim.x)) {
    const int64_t place = from.place(item, first + i);
    log_totals[i] = i < queries ? from.log_totals[place] : static_cast<float>(INFINITY);
    slopes[i] = i < queries ? from.slopes[place] : 0.0f;
  }
}

template <class T, int width>
__global__ void __launch_bounds__(flash_threads, flash_blocks)
    key_gradient_kernel(const __grid_constant__ FlashProblem p, int blocks_a_head, HeadRows<const T> q,
                        HeadRows<const T> k, HeadRows<const T> v, HeadRows<const T> dy, HeadRows<T> dk, HeadRows<T> dv,
                        RowStatistics statistics) {
  const FlashItem item(p, blocks_a_head);
  if (!item.sound) return spoil(p, item, dk, false), spoil(p, item, dv, false);
  const int own = item.own(item.tokens), warp = static_cast<int>(threadIdx.x / warp_threads);
  if (own <= 0) return;
  const KeyRoom<T, width> room(Pieces(reinterpret_cast<uintptr_t>(dynamic_shared<unsigned char>())),
                               static_cast<int>(blockDim.x / warp_threads));
  load_tile(k, item.token + item.first, own, item.head, p.columns, room.k);
  load_tile(v, item.token + item.first, own, item.head, p.columns, room.v);
  look(p, item, item.first, room.seen);
  __syncthreads();
  KeyWarp<T, width> keys{p, warp * warp_rows, {}, {}};
  keys.k.load(room.k, keys.first);
  keys.v.load(room.v, keys.first);
  for (int row = 0; row < 2; ++row) {
    keys.seen[row] = seen_bits(room.seen) >> (keys.first + lane_of_thread() / 4 + 8 * row) & 1;
  }
  for (int first = 0; first < item.queries; first += tile_rows) {
    const int queries = item.queries - first < tile_rows ? item.queries - first : tile_rows;
    const KeptBits kept{room.kept, item.element(p, first, item.first), p.longest};
    if (first > 0) __syncthreads();  // somebody may read the tiles before
    load_tile(q, item.query + first, queries, item.head, p.columns, room.q);
    load_tile(dy, item.query + first, queries, item.head, p.columns, room.dy);
    load_statistics(item, statistics, first, queries, room.log_totals, room.slopes);
    if (p.threshold > 0) kept.draw(p, queries, own);
    __syncthreads();
    if (keys.first >= own) continue;
    for (int chunk = 0; chunk * chunk_rows < queries; ++chunk)
      keys.add(room, chunk, kept, room.left + warp * left_room<T>);
  }
  if (keys.first >= own) return;
  const int64_t row = item.token + item.first + keys.first;
  store_rows(keys.dk, {p.scale, p.scale}, room.k, keys.first, dk, row, own - keys.first, item.head, p.columns);
  store_rows(keys.dv, {p.kept, p.kept}, room.v, keys.first, dv, row, own - keys.first, item.head, p.columns);
}

/// What a forward may have kept: its output, and its log_totals. Without them backward looks at the keys once more.
struct SavedAttention {
  View out, log_totals;
};

/// As ops::attend_backward; dy and the gradients are of the dtype of q, k and v.
inline void attend_backward(const AttentionHeads& heads, const View& dy, const View& q, const View& k, const View& v,
                            const View& dq, const View& dk, const View& dv, const SavedAttention& saved = {},
                            cudaStream_t stream = nullptr) {
  if (k.numel() == 0) return;
  const FlashProblem problem(heads, q, k);
  const int64_t columns = problem.columns, count = heads.heads * problem.query_rows;
  const Scratch<float> room(2 * count, stream);
  const RowStatistics found{room.data(), room.data() + count, problem.query_rows, true};
  const RowStatistics kept{saved.log_totals.as<float>(), nullptr, problem.query_rows, saved.out && saved.log_totals};
  with_flash_instance(q.dtype, columns, [&](auto tag, auto width) {
    using T = typename decltype(tag)::type;
    const HeadRows<const T> of_q(q, columns), of_k(k, columns), of_v(v, columns), of_dy(dy, columns);
    const FlashGrid queries(heads, problem.one_query ? 1 : heads.longest), keys(heads, heads.longest);
    launch(query_gradient_kernel<T, width()>, queries.blocks, queries.threads,
           QueryRoom<T, width()>(Pieces(0), queries.warps).bytes, stream, problem, queries.blocks_a_head, of_q, of_k,
           of_v, of_dy, HeadRows<const T>(saved.out, columns), HeadRows<T>(dq, columns), kept, found);
    launch(key_gradient_kernel<T, width()>, keys.blocks, keys.threads, KeyRoom<T, width()>(Pieces(0), keys.warps).bytes,
           stream, problem, keys.blocks_a_head, of_q, of_k, of_v, of_dy, HeadRows<T>(dk, columns),
           HeadRows<T>(dv, columns), found);
  });
}

}  // namespace mixtape::kernels::device
