// fold on a GPU: sums of a formula over axes. Where the innermost axis is summed, a block adds up a piece of a sum;
// where it is kept, as in the gradient of a bias, a thread walks down its column. Pieces are of a fixed size and added
// in their order: the bits do not depend on the size of the grid.
#pragma once

#include "core/kernels/block.cuh"
#include "core/kernels/place.cuh"

namespace mixtape::kernels::device {

inline constexpr unsigned fold_threads = 256;
inline constexpr int64_t fold_piece_terms = 4096, fold_column_terms = 64;

/// One term of a sum.
template <class F, int inputs, size_t... K>
__device__ float term(const F& f, const Places<inputs + 1>& places, const int64_t (&at)[inputs + 1],
                      std::index_sequence<K...>) {
  return f(load(places.at[K + 1].data, places.at[K + 1].dtype, at[K + 1])...);
}

/// What a fold is made of. `parts` [pieces, items] is null where a sum has one piece.
template <int count>
struct Fold {
  Places<count> places;
  Walk<count> kept, reduced;
  int64_t items, terms, pieces;
  float* parts;

  __device__ void finish(int64_t item, int64_t piece, float total) const {
    if (parts) {
      parts[piece * items + item] = total;
      return;
    }
    int64_t at[count] = {};
    kept.add_offsets(item, at);
    store(places.at[0].data, places.at[0].dtype, at[0], total);
  }
};

template <class F, int inputs>
__global__ void fold_rows_kernel(F f, const __grid_constant__ Fold<inputs + 1> fold) {
  const BlockLanes block;
  for (int64_t work = blockIdx.x; work < fold.items * fold.pieces; work += gridDim.x) {
    const int64_t item = work / fold.pieces, piece = work % fold.pieces, first = piece * fold_piece_terms;
    const int64_t n = fold.terms - first < fold_piece_terms ? fold.terms - first : fold_piece_terms;
    int64_t start[inputs + 1] = {};
    fold.kept.add_offsets(item, start);
    const float total = block.sum(n, [&](int64_t i) {
      int64_t at[inputs + 1];
      for (int k = 0; k <= inputs; ++k) at[k] = start[k];
      fold.reduced.add_offsets(first + i, at);
      return term<F, inputs>(f, fold.places, at, std::make_index_sequence<inputs>());
    });
    if (threadIdx.x == 0) fold.finish(item, piece, total);
  }
}

template <class F, int inputs>
__global__ void fold_columns_kernel(F f, const __grid_constant__ Fold<inputs + 1> fold) {
  const int64_t item = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (item >= fold.items) return;
  int64_t start[inputs + 1] = {};
  fold.kept.add_offsets(item, start);
  for (int64_t piece = blockIdx.y; piece < fold.pieces; piece += gridDim.y) {
    const int64_t first = piece * fold_column_terms;
    float total = 0;
    for (int64_t i = first; i < fold.terms && i < first + fold_column_terms; ++i) {
      int64_t at[inputs + 1];
      for (int k = 0; k <= inputs; ++k) at[k] = start[k];
      fold.reduced.add_offsets(i, at);
      total += term<F, inputs>(f, fold.places, at, std::make_index_sequence<inputs>());
    }
    fold.finish(item, piece, total);
  }
}

/// Adds up the parts of each item, in their order.
template <int count>
__global__ void fold_parts_kernel(const __grid_constant__ Fold<count> fold, const float* parts) {
  const int64_t item = int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  if (item >= fold.items) return;
  float total = 0;
  for (int64_t piece = 0; piece < fold.pieces; ++piece) total += parts[piece * fold.items + item];
  fold.finish(item, 0, total);
}

inline unsigned blocks_of(int64_t items, unsigned threads) {
  return static_cast<unsigned>((items + threads - 1) / threads);
}

/// Axes of `full` that `out` keeps, as bits.
inline uint32_t kept_axes(const Shape& full, const Shape& out) {
  uint32_t keep = 0;
  const int missing = full.rank() - out.rank();
  for (int axis = missing; axis < full.rank(); ++axis) {
    if (out[axis - missing] == full[axis]) keep |= 1u << axis;
  }
  return keep;
}

template <class F, int inputs>
void fold(const F& f, const Shape& full_shape, const Operand* operands, cudaStream_t stream = nullptr) {
  View views[inputs + 1];
  views_of<inputs + 1>(operands, views);
  if (views[0].numel() == 0) return;
  const uint32_t keep = kept_axes(full_shape, views[0].shape);
  const Plan kept = make_plan(full_shape, views, inputs + 1, keep);
  const Plan reduced = make_plan(full_shape, views, inputs + 1, ~keep);
  int last = full_shape.rank() - 1;
  while (last >= 0 && full_shape[last] == 1) --last;
  const int64_t columns = kept.rank > 0 ? kept.size[kept.rank - 1] : 1;
  const bool along_rows = columns < 32 || (last >= 0 && !(keep >> last & 1u));
  const int64_t terms = reduced.count(), piece = along_rows ? fold_piece_terms : fold_column_terms;
  const int64_t pieces = terms <= piece ? 1 : (terms + piece - 1) / piece;
  Fold<inputs + 1> fold{places_of<inputs + 1>(operands),
                        Walk<inputs + 1>(kept),
                        Walk<inputs + 1>(reduced),
                        kept.count(),
                        terms,
                        pieces,
                        nullptr};
  const Scratch<float> parts(pieces > 1 ? pieces * fold.items : 1, stream);
  if (pieces > 1) fold.parts = parts.data();
  if (along_rows) {
    const unsigned threads = terms < 128 ? warp_threads : terms < 1024 ? 128 : fold_threads;
    launch(fold_rows_kernel<F, inputs>, grid_for(fold.items * pieces, 1), threads, 0, stream, f, fold);
  } else {
    const unsigned down = static_cast<unsigned>(pieces < 65535 ? pieces : 65535);
    launch(fold_columns_kernel<F, inputs>, dim3(blocks_of(fold.items, fold_threads), down), fold_threads, 0, stream, f,
           fold);
  }
  if (pieces == 1) return;
  fold.parts = nullptr;
  launch(fold_parts_kernel<inputs + 1>, blocks_of(fold.items, fold_threads), fold_threads, 0, stream, fold,
         parts.data());
}

}  // namespace mixtape::kernels::device
