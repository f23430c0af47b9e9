// A stable sort of pairs by a 32-bit key on a GPU: four bits at a time from the lowest (Satish, Harris and Garland,
// "Designing efficient sorting algorithms for manycore GPUs", 2009). Blocks sort tiles of 256, a scan over what they
// counted says where each digit of each tile goes.
#pragma once

#include "core/kernels/launch.cuh"

namespace mixtape::kernels::device {

inline constexpr int64_t sort_tile = 256, sort_digits = 16;

/// The first place in the sorted keys whose key is not below `key`.
inline __device__ int64_t first_not_below(const uint32_t* keys, int64_t count, uint32_t key) {
  int64_t low = 0;
  while (count > 0) {
    const int64_t half_way = count / 2;
    if (keys[low + half_way] < key) {
      low += half_way + 1;
      count -= half_way + 1;
    } else {
      count = half_way;
    }
  }
  return low;
}

/// How many of the threads before this one say yes, and how many of the block; every thread of a block of 256 calls it,
/// and passes a barrier before it calls it again.
struct Votes {
  uint32_t before, all;
};
inline __device__ Votes count_votes(bool yes) {
  __shared__ uint32_t of_warp[sort_tile / warp_threads];
  const unsigned lane = threadIdx.x % warp_threads, warp = threadIdx.x / warp_threads;
  const uint32_t ballot = __ballot_sync(whole_warp, yes);
  if (lane == 0) of_warp[warp] = static_cast<uint32_t>(__popc(ballot));
  __syncthreads();
  Votes votes{static_cast<uint32_t>(__popc(ballot & ((1u << lane) - 1u))), 0};
  for (unsigned w = 0; w < sort_tile / warp_threads; ++w) {
    if (w < warp) votes.before += of_warp[w];
    votes.all += of_warp[w];
  }
  return votes;
}

struct Pair {
  uint32_t key, value;
};

/// Sorts each tile by the digit at `shift` and counts: counts[digit][tile].
template <int = 0>
__global__ void sort_tiles_kernel(uint32_t* keys, uint32_t* values, int64_t count, int shift, uint32_t* counts) {
  __shared__ Pair tile[sort_tile];
  __shared__ uint32_t starts[sort_digits + 1];
  const int64_t at = int64_t{blockIdx.x} * sort_tile + threadIdx.x, left = count - int64_t{blockIdx.x} * sort_tile;
  Pair own{0xffffffffu, 0};  // beyond the end: the last digit, behind all others that have it
  if (at < count) own = {keys[at], values[at]};
  for (int bit = 0; bit < 4; ++bit) {
    const bool zero = !(own.key >> (shift + bit) & 1u);
    const Votes zeros = count_votes(zero);
    tile[zero ? zeros.before : zeros.all + threadIdx.x - zeros.before] = own;
    __syncthreads();
    own = tile[threadIdx.x];
  }
  if (at < count) keys[at] = own.key, values[at] = own.value;
  // Where each digit starts: the first thread that has it, or a larger one, says so.
  const uint32_t digit = own.key >> shift & (sort_digits - 1);
  const uint32_t before = threadIdx.x == 0 ? 0 : (tile[threadIdx.x - 1].key >> shift & (sort_digits - 1)) + 1;
  for (uint32_t d = before; d <= digit; ++d) starts[d] = threadIdx.x;
  if (threadIdx.x == sort_tile - 1) {
    for (uint32_t d = digit + 1; d <= sort_digits; ++d) starts[d] = sort_tile;
  }
  __syncthreads();
  if (threadIdx.x >= sort_digits) return;
  const uint32_t end = static_cast<uint32_t>(left < sort_tile ? left : sort_tile);  // what lies beyond does not count
  const uint32_t from = starts[threadIdx.x] < end ? starts[threadIdx.x] : end;
  const uint32_t to = starts[threadIdx.x + 1] < end ? starts[threadIdx.x + 1] : end;
  counts[int64_t{threadIdx.x} * gridDim.x + blockIdx.x] = to - from;
}

/// Replaces n counts by the sums of those before them. One block of 256.
template <int = 0>
__global__ void scan_kernel(uint32_t* counts, int64_t n) {
  __shared__ uint32_t sums[sort_tile];
  const int64_t each = (n + sort_tile - 1) / sort_tile, first = threadIdx.x * each;
  uint32_t own = 0;
  for (int64_t i = first; i < n && i < first + each; ++i) own += counts[i];
  sums[threadIdx.x] = own;
  __syncthreads();
  for (unsigned reach = 1; reach < sort_tile; reach *= 2) {
    const uint32_t other = threadIdx.x >= reach ? sums[threadIdx.x - reach] : 0;
    __syncthreads();
    sums[threadIdx.x] += other;
    __syncthreads();
  }
  uint32_t before = sums[threadIdx.x] - own;
  for (int64_t i = first; i < n && i < first + each; ++i) {
    const uint32_t here = counts[i];
    counts[i] = before;
    before += here;
  }
}

/// Moves the pairs of sorted tiles to where their digits go.
template <int = 0>
__global__ void scatter_kernel(const uint32_t* keys, const uint32_t* values, int64_t count, int shift,
                               const uint32_t* before, uint32_t* sorted_keys, uint32_t* sorted_values) {
  __shared__ uint32_t digits[sort_tile], starts[sort_digits];
  const int64_t at = int64_t{blockIdx.x} * sort_tile + threadIdx.x;
  const uint32_t key = at < count ? keys[at] : 0, digit = key >> shift & (sort_digits - 1);
  digits[threadIdx.x] = digit;
  __syncthreads();
  if (at < count && (threadIdx.x == 0 || digits[threadIdx.x - 1] != digit)) starts[digit] = threadIdx.x;
  __syncthreads();
  if (at >= count) return;
  const int64_t to = int64_t{before[int64_t{digit} * gridDim.x + blockIdx.x]} + threadIdx.x - starts[digit];
  sorted_keys[to] = key;
  sorted_values[to] = values[at];
}

/// Room for pairs, and their order.
class SortedPairs {
 public:
  SortedPairs(int64_t count, cudaStream_t stream)
      : count_(count),
        tiles_((count + sort_tile - 1) / sort_tile),
        stream_(stream),
        pairs_{{some(count), stream}, {some(count), stream}, {some(count), stream}, {some(count), stream}},
        counts_(some(tiles_ * sort_digits), stream) {}

  uint32_t* keys() const { return pairs_[front_].data(); }
  uint32_t* values() const { return pairs_[front_ + 1].data(); }

  /// Sorts by key, none of which is above `largest`; equal keys keep their order.
  void sort(uint32_t largest) {
    const unsigned tiles = static_cast<unsigned>(tiles_), threads = static_cast<unsigned>(sort_tile);
    for (int shift = 0; shift < 32 && (shift == 0 || largest >> shift > 0); shift += 4) {
      const int back = 2 - front_;
      launch(sort_tiles_kernel<>, tiles, threads, 0, stream_, keys(), values(), count_, shift, counts_.data());
      launch(scan_kernel<>, 1, threads, 0, stream_, counts_.data(), tiles_ * sort_digits);
      launch(scatter_kernel<>, tiles, threads, 0, stream_, keys(), values(), count_, shift, counts_.data(),
             pairs_[back].data(), pairs_[back + 1].data());
      front_ = back;
    }
  }

 private:
  static int64_t some(int64_t count) { return count > 0 ? count : 1; }
  int64_t count_, tiles_;
  cudaStream_t stream_;
  int front_ = 0;  // keys and values are pairs_[front_] and the next; the other two are room for the next pass
  Scratch<uint32_t> pairs_[4];
  Scratch<uint32_t> counts_;
};

}  // namespace mixtape::kernels::device
