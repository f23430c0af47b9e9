// What the kernels of attention are made of: pieces of a head in shared memory, and a warp's products of 16 rows with
// them, in the fragments of the tensor core (mma.cuh). For f32 the same places are filled by plain multiplications.
#pragma once

#include <type_traits>

#include "core/kernels/block.cuh"
#include "core/kernels/mma.cuh"
#include "core/view.h"

namespace mixtape::kernels::device {

inline constexpr int warp_rows = 16;   // of a warp's product
inline constexpr int tile_rows = 64;   // that a block goes on by
inline constexpr int chunk_rows = 16;  // of a tile that a product takes at once
inline constexpr int tile_chunks = tile_rows / chunk_rows;

MIXTAPE_HD inline int whole_chunks(int rows) { return (rows + chunk_rows - 1) / chunk_rows * chunk_rows; }

/// A matrix [rows, heads·columns] in global memory.
template <class T>
struct HeadRows {
  T* data;
  int64_t stride, inner;
  bool in_sixteens;  ///< the columns of a head begin at a multiple of 16 bytes and are a multiple of it

  HeadRows(const View& v, int64_t columns)
      : data(static_cast<T*>(v.data)), stride(v ? v.strides[0] : 0), inner(v ? v.strides[1] : 0) {
    constexpr int64_t sixteen = 16 / sizeof(T);
    in_sixteens =
        inner == 1 && stride % sixteen == 0 && columns % sixteen == 0 && reinterpret_cast<uintptr_t>(v.data) % 16 == 0;
  }
  __device__ T* at(int64_t row, int64_t column) const { return data + row * stride + column * inner; }
};

/// Rows of `width` numbers in shared memory. The padding puts neighbours in a column into different banks.
template <class T, int width>
struct Tile {
  static constexpr int sixteen = 16 / static_cast<int>(sizeof(T));  // numbers in 16 bytes
  static constexpr int stride = width + sixteen;
  T* data;
  __device__ T* row(int i) const { return data + i * stride; }
};

/// Cuts the shared memory of a block into pieces; with base 0 it only counts them, on the host.
class Pieces {
 public:
  MIXTAPE_HD explicit Pieces(uintptr_t base) : base_(base) {}
  template <class T>
  MIXTAPE_HD T* take(int count) {
    T* piece = reinterpret_cast<T*>(base_ + bytes_);
    bytes_ += (static_cast<size_t>(count) * sizeof(T) + 15) / 16 * 16;
    return piece;
  }
  template <class T, int width>
  MIXTAPE_HD Tile<T, width> tile(int rows) {
    return {take<T>(rows * Tile<T, width>::stride)};
  }
  MIXTAPE_HD size_t bytes() const { return bytes_; }

 private:
  uintptr_t base_;
  size_t bytes_ = 0;
};

/// The block brings `valid` rows of one head, from `first` on, into a tile; what is missing to whole chunks and to its
/// width is 0.
template <class T, int width>
__device__ void load_tile(const HeadRows<const T>& from, int64_t first, int valid, int64_t head, int columns,
                          const Tile<T, width>& to) {
  constexpr int sixteen = Tile<T, width>::sixteen, a_row = width / sixteen;
  const int count = whole_chunks(valid) * a_row;
  for (int i = static_cast<int>(threadIdx.x); i < count; i += static_cast<int>(blockDim.x)) {
    const int row = i / a_row, column = i % a_row * sixteen;
    const T* source = from.at(first + row, head * columns + column);
    T* target = to.row(row) + column;
    if (from.in_sixteens) {
      const bool there = row < valid && column < columns;
      *reinterpret_cast<float4*>(target) = there ? *reinterpret_cast<const float4*>(source) : float4{0, 0, 0, 0};
    } else {
      for (int j = 0; j < sixteen; ++j) {
        target[j] = row < valid && column + j < columns ? source[j * from.inner] : T{};
      }
    }
  }
}

/// The left factor of a warp's product: 16 rows of `depth` numbers, as fragments.
template <class T, int depth>
struct Left {
  uint32_t a[depth / 16][4];

  template <int width>
  __device__ void load(const Tile<T, width>& tile, int first) {
    const int lane = lane_of_thread();
    const T* mine = tile.row(first + lane % 16) + lane / 16 * 8;
    MIXTAPE_UNROLL
    for (int k = 0; k < depth / 16; ++k) load_matrices<T, false>(mine + k * 16, a[k]);
  }
  /// Numbers that stand as the result of a product stand, rounded.
  __device__ void take(const float (&from)[depth / 8][4], T*) {
    MIXTAPE_UNROLL
    for (int k = 0; k < depth / 16; ++k) {
      MIXTAPE_UNROLL
      for (int i = 0; i < 4; ++i) {
        const float* two = from[2 * k + i / 2] + i % 2 * 2;
        a[k][i] = packed<T>(two[0], two[1]);
      }
    }
  }
};

/// In f32 the factor stays in shared memory: where it was, or in a room of the warp's own.
template <int depth>
struct Left<float, depth> {
  static constexpr int room_stride = depth + 4;
  const float* mine;  // row lane/4
  int below;          // from there to row lane/4 + 8

  template <int width>
  __device__ void load(const Tile<float, width>& tile, int first) {
    mine = tile.row(first + lane_of_thread() / 4);
    below = 8 * Tile<float, width>::stride;
  }
  __device__ void take(const float (&from)[depth / 8][4], float* room) {
    float* own = room + lane_of_thread() / 4 * room_stride;
    const int column = lane_of_thread() % 4 * 2;
    __syncwarp();  // who reads what was there before
    for (int n = 0; n < depth / 8; ++n) {
      for (int i = 0; i < 4; ++i) own[i / 2 * 8 * room_stride + n * 8 + column + i % 2] = from[n][i];
    }
    __syncwarp();
    mine = own;
    below = 8 * room_stride;
  }
};

/// What Left::take of a chunk needs for each warp.
template <class T>
inline constexpr int left_room = std::is_same_v<T, float> ? warp_rows* Left<float, chunk_rows>::room_stride : 0;

/// sums = left · (a chunk of rows of b, from `first` on)ᵀ.
template <class T, int width>
__device__ void multiply_rows(const Left<T, width>& left, const Tile<T, width>& b, int first, float (&sums)[2][4]) {
  MIXTAPE_UNROLL
  for (int i = 0; i < 8; ++i) sums[i / 4][i % 4] = 0;
  const int lane = lane_of_thread();
  if constexpr (std::is_same_v<T, float>) {
    const float* right = b.row(first + lane % 4 * 2);
    MIXTAPE_UNROLL_BY_TWO
    for (int k = 0; k < width; k += 4) {
      const float4 above = *reinterpret_cast<const float4*>(left.mine + k);
      const float4 below = *reinterpret_cast<const float4*>(left.mine + left.below + k);
      MIXTAPE_UNROLL
      for (int i = 0; i < 4; ++i) {
        const float4 z = *reinterpret_cast<const float4*>(right + (i / 2 * 8 + i % 2) * b.stride + k);
        float &one = sums[i / 2][i % 2], &other = sums[i / 2][2 + i % 2];
        one += above.x * z.x, one += above.y * z.y, one += above.z * z.z, one += above.w * z.w;
        other += below.x * z.x, other += below.y * z.y, other += below.z * z.z, other += below.w * z.w;
      }
    }
  } else {
    const T* mine = b.row(first + lane % 8 + lane / 16 * 8) + lane / 8 % 2 * 8;
    MIXTAPE_UNROLL
    for (int k = 0; k < width / 16; ++k) {
      uint32_t four[4];
      load_matrices<T, false>(mine + k * 16, four);
      mma_m16n8k16<T>(left.a[k], four[0], four[1], sums[0]);
      mma_m16n8k16<T>(left.a[k], four[2], four[3], sums[1]);
    }
  }
}

/// sums += left · a chunk of rows of b, from `first` on.
template <class T, int width>
__device__ void multiply_add(const Left<T, chunk_rows>& left, const Tile<T, width>& b, int first,
                             float (&sums)[width / 8][4]) {
  const int lane = lane_of_thread();
  if constexpr (std::is_same_v<T, float>) {
    MIXTAPE_UNROLL_BY_TWO
    for (int k = 0; k < chunk_rows; ++k) {
      const float above = left.mine[k], below = left.mine[left.below + k];
      const float* right = b.row(first + k) + lane % 4 * 2;
      MIXTAPE_UNROLL
      for (int n = 0; n < width / 8; ++n) {
        const float one = right[n * 8], other = right[n * 8 + 1];
        sums[n][0] += above * one;
        sums[n][1] += above * other;
        sums[n][2] += below * one;
        sums[n][3] += below * other;
      }
    }
  } else {
    const T* mine = b.row(first + lane % 16) + lane / 16 * 8;
    MIXTAPE_UNROLL
    for (int pair = 0; pair < width / 16; ++pair) {
      uint32_t four[4];
      load_matrices<T, true>(mine + pair * 16, four);
      mma_m16n8k16<T>(left.a[0], four[0], four[1], sums[2 * pair]);
      mma_m16n8k16<T>(left.a[0], four[2], four[3], sums[2 * pair + 1]);
    }
  }
}

/// The sum, or the maximum, of the four lanes that hold a row, in each of them.
template <class Combine>
__device__ float reduce_row(float value, const Combine& combine) {
  value = combine(value, __shfl_xor_sync(whole_warp, value, 1));
  return combine(value, __shfl_xor_sync(whole_warp, value, 2));
}
inline __device__ float sum_of_row(float value) {
  return reduce_row(value, [](float a, float b) { return a + b; });
}

/// A warp's 16 rows to global memory, those of lane/4 times factor[0], those of lane/4 + 8 times factor[1]; they pass
/// through rows of a tile that are the warp's own.
template <class T, int width>
__device__ void store_rows(const float (&sums)[width / 8][4], const float (&factor)[2], const Tile<T, width>& tile,
                           int own, const HeadRows<T>& to, int64_t first, int valid, int64_t head, int columns) {
  constexpr int sixteen = Tile<T, width>::sixteen, a_row = width / sixteen;
  const int lane = lane_of_thread();
  __syncwarp();  // who reads what was there before
  MIXTAPE_UNROLL
  for (int n = 0; n < width / 8; ++n) {
    MIXTAPE_UNROLL
    for (int side = 0; side < 2; ++side) {
      T* two = tile.row(own + lane / 4 + 8 * side) + n * 8 + lane % 4 * 2;
      const float one = sums[n][2 * side] * factor[side], other = sums[n][2 * side + 1] * factor[side];
      if constexpr (std::is_same_v<T, float>) {
        two[0] = one, two[1] = other;
      } else {
        const uint32_t pair = packed<T>(one, other);
        two[0] = T{static_cast<uint16_t>(pair)}, two[1] = T{static_cast<uint16_t>(pair >> 16)};
      }
    }
  }
  __syncwarp();
  for (int i = lane; i < warp_rows * a_row; i += static_cast<int>(warp_threads)) {
    const int row = i / a_row, column = i % a_row * sixteen;
    if (row >= valid || column >= columns) continue;
    const T* source = tile.row(own + row) + column;
    T* target = to.at(first + row, head * columns + column);
    if (to.in_sixteens) {
      *reinterpret_cast<float4*>(target) = *reinterpret_cast<const float4*>(source);
    } else {
      for (int j = 0; j < sixteen && column + j < columns; ++j) target[j * to.inner] = source[j];
    }
  }
}

}  // namespace mixtape::kernels::device
