// What a block of an attention kernel knows: which head of which sequence is its own, which keys are seen, and which
// weights dropout keeps. The masks are those of the CPU: places of [sequences, heads, longest, longest].
#pragma once

#include <cmath>

#include "core/kernels/attention_heads.h"
#include "core/kernels/flash_tile.cuh"

namespace mixtape::kernels::device {

inline constexpr unsigned flash_threads = 128;
inline constexpr unsigned flash_blocks = 2;  // at once on a multiprocessor: a thread may have 255 registers

/// The same for a kernel.
struct FlashProblem {
  const int64_t* offsets;
  const bool* visible;
  int64_t offsets_stride, visible_stride, tokens, query_rows, longest;
  int heads, columns;  // columns of one head
  bool one_query;      // a sequence has one row of q, whose query stands at position 0
  RngCoordinates at;
  uint32_t threshold;         // draws from here on are kept; 0: nothing is dropped
  float kept;                 // what a kept weight is multiplied by
  float scale, scale_of_two;  // of the scores; of their powers of two

  FlashProblem(const AttentionHeads& all, const View& q, const View& k)
      : offsets(all.offsets.as<const int64_t>()),
        visible(all.visible.as<const bool>()),
        offsets_stride(all.offsets.strides[0]),
        visible_stride(all.visible ? all.visible.strides[0] : 0),
        tokens(k.shape[0]),
        query_rows(q.shape[0]),
        longest(all.longest),
        heads(static_cast<int>(all.heads)),
        columns(static_cast<int>(k.shape[1] / all.heads)),
        one_query(!(q.shape == k.shape)),
        at(all.at),
        threshold(static_cast<uint32_t>(std::round(all.p * 65536.0))),
        kept(all.p < 1.0 ? static_cast<float>(1.0 / (1.0 - all.p)) : 0.0f),
        scale(static_cast<float>(all.scale)),
        scale_of_two(static_cast<float>(all.scale * 1.4426950408889634)) {}
};

/// One head of one sequence, and the rows of it that this block owns: queries, or keys.
struct FlashItem {
  int64_t sequence, head;
  int64_t token, query;  // the first rows of keys and queries
  int tokens, queries;
  int first;   // of the block's own rows
  bool sound;  // whether the offsets can be meant: a GPU's are not looked at before

  __device__ FlashItem(const FlashProblem& p, int blocks_a_head) {
    const int64_t block = blockIdx.x, item = block / blocks_a_head;
    sequence = item / p.heads;
    head = item % p.heads;
    token = p.offsets[sequence * p.offsets_stride];
    const int64_t end = p.offsets[(sequence + 1) * p.offsets_stride];
    sound = token >= 0 && token <= end && end <= p.tokens && end - token <= p.longest;
    tokens = sound ? static_cast<int>(end - token) : 0;
    queries = p.one_query ? 1 : tokens;
    query = p.one_query ? sequence : token;
    first = static_cast<int>(block % blocks_a_head) * own_rows();
  }
  /// How many rows a block of this size owns.
  static __device__ int own_rows() { return static_cast<int>(blockDim.x / warp_threads) * warp_rows; }
  __device__ int own(int rows) const { return rows - first < own_rows() ? rows - first : own_rows(); }

  /// The place of the weight of a query and a key in the mask.
  __device__ uint64_t element(const FlashProblem& p, int of_query, int of_key) const {
    return static_cast<uint64_t>(((sequence * p.heads + head) * p.longest + of_query) * p.longest + of_key);
  }
};

/// Offsets that cannot be meant: the rows that they name, as far as there are such, become NaN.
template <class T>
__device__ void spoil(const FlashProblem& p, const FlashItem& item, const HeadRows<T>& to, bool queries) {
  int64_t begin = item.sequence, end = item.sequence + 1;
  if (!queries || !p.one_query) {
    begin = item.token < 0 ? 0 : item.token;
    end = p.offsets[(item.sequence + 1) * p.offsets_stride];
    if (end > p.tokens) end = p.tokens;
  }
  if (item.first > 0) return;
  for (int64_t i = threadIdx.x; i < (end - begin) * p.columns; i += blockDim.x) {
    *to.at(begin + i / p.columns, item.head * p.columns + i % p.columns) = convert_to<T>(static_cast<float>(NAN));
  }
}

/// Which weights of a tile are kept: a row of bits for each query. They are drawn in eights that need not begin where
/// the tile does, so a row of 64 takes up to nine.
struct KeptBits {
  static constexpr int row_bytes = 12, eights = tile_rows / 8 + 1;
  uint8_t* bytes;
  uint64_t first;  // the place of the tile's first weight
  int64_t longest;

  /// Where in its first eight the row begins.
  __device__ int shift(int row) const {
    return static_cast<int>(
        (static_cast<unsigned>(first) + static_cast<unsigned>(row) * static_cast<unsigned>(longest)) % 8);
  }
  /// The block draws for `rows` queries and `columns` keys.
  __device__ void draw(const FlashProblem& p, int rows, int columns) const {
    for (int i = static_cast<int>(threadIdx.x); i < rows * eights; i += static_cast<int>(blockDim.x)) {
      const int row = i / eights, eight = i % eights;
      if (eight * 8 >= columns + shift(row)) continue;
      const uint64_t place = first + static_cast<uint64_t>(row) * static_cast<uint64_t>(longest);
      const Philox bits = philox_block(p.at, place / 8 + static_cast<uint64_t>(eight));
      unsigned kept = 0;
      for (int j = 0; j < 8; ++j) {
        kept |= static_cast<unsigned>((bits.word[j / 2] >> (16 * (j % 2)) & 0xffffu) >= p.threshold) << j;
      }
      bytes[row * row_bytes + eight] = static_cast<uint8_t>(kept);
    }
  }
  /// Bit j: the weight of key j.
  __device__ uint64_t row(int i) const {
    const uint32_t* word = reinterpret_cast<const uint32_t*>(bytes + i * row_bytes);
    const int moved = shift(i);
    const uint64_t low = (uint64_t{word[0]} | uint64_t{word[1]} << 32) >> moved;
    return moved == 0 ? low : low | uint64_t{word[2]} << (64 - moved);
  }
  __device__ bool at(int row, int key) const {
    const int place = shift(row) + key;
    return bytes[row * row_bytes + place / 8] >> place % 8 & 1;
  }
};

/// Which of the keys from `first` on are seen, as 64 bits in two words: what lies beyond the sequence is not.
inline __device__ void look(const FlashProblem& p, const FlashItem& item, int first, uint32_t* seen) {
  const unsigned warps = blockDim.x / warp_threads;
  for (unsigned word = threadIdx.x / warp_threads; word < 2; word += warps) {
    const int key = first + static_cast<int>(word * warp_threads) + lane_of_thread();
    const bool there = key < item.tokens && (!p.visible || p.visible[(item.token + key) * p.visible_stride]);
    const uint32_t bits = __ballot_sync(whole_warp, there);
    if (lane_of_thread() == 0) seen[word] = bits;
  }
}
inline __device__ uint64_t seen_bits(const uint32_t* seen) { return uint64_t{seen[0]} | uint64_t{seen[1]} << 32; }
/// All of the first `count` bits, at most 64.
inline __device__ uint64_t all_bits(int count) { return count >= 64 ? ~uint64_t{0} : (uint64_t{1} << count) - 1; }

/// The keys and values that a block of queries looks at together, with their masks.
template <class T, int width>
struct KeyTile {
  Tile<T, width> k, v;
  uint8_t* kept;
  uint32_t* seen;

  MIXTAPE_HD explicit KeyTile(Pieces& pieces)
      : k(pieces.tile<T, width>(tile_rows)),
        v(pieces.tile<T, width>(tile_rows)),
        kept(pieces.take<uint8_t>(tile_rows * KeptBits::row_bytes)),
        seen(pieces.take<uint32_t>(2)) {}
};

/// Goes through the keys of a sequence: body(keys, seen, kept) for each tile, with how many there are.
template <class T, int width, class Body>
__device__ void for_key_tiles(const FlashProblem& p, const FlashItem& item, const HeadRows<const T>& k,
                              const HeadRows<const T>& v, const KeyTile<T, width>& tile, int& loaded,
                              const Body& body) {
  for (int first = 0; first < item.tokens; first += tile_rows) {
    const int keys = item.tokens - first < tile_rows ? item.tokens - first : tile_rows;
    const KeptBits kept{tile.kept, item.element(p, item.first, first), p.longest};
    if (loaded != first) {
      if (loaded >= 0) __syncthreads();  // somebody may read the tile before
      load_tile(k, item.token + first, keys, item.head, p.columns, tile.k);
      load_tile(v, item.token + first, keys, item.head, p.columns, tile.v);
      look(p, item, first, tile.seen);
      if (p.threshold > 0) kept.draw(p, item.own(item.queries), keys);
      __syncthreads();
      loaded = first;
    }
    body(keys, seen_bits(tile.seen), kept);
  }
}

/// 2^x. Of -inf 0.
inline __device__ float power_of_two(float x) { return exp2f(x); }

}  // namespace mixtape::kernels::device
