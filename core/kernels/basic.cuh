// fill, copy, scale, add_scaled and census on a GPU: any dtype that the CPU's take but arithmetic in f64.
#pragma once

#include <vector>

#include "core/kernels/basic.h"
#include "core/kernels/loops.h"

#include "core/kernels/fold.cuh"
#include "core/kernels/map.cuh"

namespace mixtape::kernels::device {

/// Calls f(Unit{}) with an unsigned type of the element's size: moving bits needs no more.
template <class F>
void for_unit(DType dtype, const F& f) {
  switch (size_of(dtype)) {
    case 1: return f(uint8_t{});
    case 2: return f(uint16_t{});
    case 4: return f(uint32_t{});
    default: return f(uint64_t{});
  }
}
/// Calls f(T{}) with the type of the elements.
template <class F>
void for_type(DType dtype, const F& f) {
  switch (dtype) {
    case DType::f32: return f(float{});
    case DType::f16: return f(half{});
    case DType::bf16: return f(bf16{});
    case DType::f64: return f(double{});
    case DType::i64: return f(int64_t{});
    case DType::i32: return f(int32_t{});
    case DType::u8: return f(uint8_t{});
    case DType::boolean: return f(bool{});
  }
}

/// The bits of `value` as an element of `dtype`.
inline uint64_t bits_of(double value, DType dtype) {
  uint64_t bits = 0;
  for_type(dtype, [&](auto type) {
    const auto element = convert_to<decltype(type)>(value);
    __builtin_memcpy(&bits, &element, sizeof element);
  });
  return bits;
}

template <class Unit>
__global__ void fill_kernel(Unit* out, const __grid_constant__ Walk<1> walk, int64_t count, Unit value) {
  const int64_t step = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += step) {
    int64_t at[1] = {};
    walk.add_offsets(i, at);
    out[at[0]] = value;
  }
}

inline void fill(const View& out, double value, cudaStream_t stream = nullptr) {
  const int64_t count = out.numel();
  if (count == 0) return;
  const uint64_t bits = bits_of(value, out.dtype);
  for_unit(out.dtype, [&](auto unit) {
    using Unit = decltype(unit);
    launch(fill_kernel<Unit>, grid_for(count, map_threads), map_threads, 0, stream, out.as<Unit>(),
           Walk<1>(make_plan(out.shape, &out, 1)), count, static_cast<Unit>(bits));
  });
}

template <class Unit>
__global__ void copy_kernel(const Unit* in, Unit* out, const __grid_constant__ Walk<2> walk, int64_t count) {
  const int64_t step = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += step) {
    int64_t at[2] = {};
    walk.add_offsets(i, at);
    out[at[0]] = in[at[1]];
  }
}

/// An element as M, and back: double where float would lose something.
template <class M>
__device__ M load_as(const void* data, DType dtype, int64_t offset) {
  switch (dtype) {
    case DType::f32: return convert_to<M>(static_cast<const float*>(data)[offset]);
    case DType::f16: return convert_to<M>(static_cast<const half*>(data)[offset]);
    case DType::bf16: return convert_to<M>(static_cast<const bf16*>(data)[offset]);
    case DType::f64: return convert_to<M>(static_cast<const double*>(data)[offset]);
    case DType::i64: return convert_to<M>(static_cast<const int64_t*>(data)[offset]);
    case DType::i32: return convert_to<M>(static_cast<const int32_t*>(data)[offset]);
    default: return convert_to<M>(static_cast<const uint8_t*>(data)[offset]);  // u8, bool
  }
}
template <class M>
__device__ void store_as(void* data, DType dtype, int64_t offset, M value) {
  switch (dtype) {
    case DType::f32: static_cast<float*>(data)[offset] = convert_to<float>(value); return;
    case DType::f16: static_cast<half*>(data)[offset] = convert_to<half>(value); return;
    case DType::bf16: static_cast<bf16*>(data)[offset] = convert_to<bf16>(value); return;
    case DType::f64: static_cast<double*>(data)[offset] = convert_to<double>(value); return;
    case DType::i64: static_cast<int64_t*>(data)[offset] = convert_to<int64_t>(value); return;
    case DType::i32: static_cast<int32_t*>(data)[offset] = convert_to<int32_t>(value); return;
    case DType::u8: static_cast<uint8_t*>(data)[offset] = convert_to<uint8_t>(value); return;
    case DType::boolean: static_cast<bool*>(data)[offset] = convert_to<bool>(value); return;
  }
}

template <class M>
__global__ void convert_kernel(const void* in, DType from, void* out, DType to, const __grid_constant__ Walk<2> walk,
                               int64_t count) {
  const int64_t step = int64_t{gridDim.x} * blockDim.x;
  for (int64_t i = int64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += step) {
    int64_t at[2] = {};
    walk.add_offsets(i, at);
    store_as<M>(out, to, at[0], load_as<M>(in, from, at[1]));
  }
}

inline bool is_wide(DType dtype) { return dtype == DType::f64 || dtype == DType::i64 || dtype == DType::i32; }

inline void copy(const View& in, const View& out, cudaStream_t stream = nullptr) {
  const int64_t count = out.numel();
  if (count == 0) return;
  const View views[2] = {out, in};
  const Walk<2> walk(make_plan(out.shape, views, 2));
  const dim3 grid = grid_for(count, map_threads);
  const auto convert = [&](auto kernel) {
    launch(kernel, grid, map_threads, 0, stream, in.data, in.dtype, out.data, out.dtype, walk, count);
  };
  if (in.dtype != out.dtype) {
    return is_wide(in.dtype) || is_wide(out.dtype) ? convert(convert_kernel<double>) : convert(convert_kernel<float>);
  }
  if (in.contiguous() && out.contiguous() && in.shape == out.shape) {
    const size_t bytes = static_cast<size_t>(count * size_of(out.dtype));
    return check_cuda(cudaMemcpyAsync(out.data, in.data, bytes, cudaMemcpyDeviceToDevice, stream), "copy");
  }
  for_unit(out.dtype, [&](auto unit) {
    using Unit = decltype(unit);
    launch(copy_kernel<Unit>, grid, map_threads, 0, stream, in.as<const Unit>(), out.as<Unit>(), walk, count);
  });
}

struct Scaled {
  double factor;
  template <class M>
  MIXTAPE_HD M operator()(M x) const {
    return x * static_cast<M>(factor);
  }
};
struct Blended {
  double fa, fb;
  template <class M>
  MIXTAPE_HD M operator()(M a, M b) const {
    return a * static_cast<M>(fa) + b * static_cast<M>(fb);
  }
};
inline void scale(const View& in, double factor, const View& out, cudaStream_t stream = nullptr) {
  const Operand operands[] = {out, in};
  map<Scaled, 1>(Scaled{factor}, operands, stream);
}
inline void add_scaled(const View& a, double fa, const View& b, double fb, const View& out,
                       cudaStream_t stream = nullptr) {
  const Operand operands[] = {out, a, b};
  map<Blended, 2>(Blended{fa, fb}, operands, stream);
}

inline constexpr int64_t census_piece = 1 << 14;
inline constexpr unsigned census_threads = 256;

/// What one thread, then a block, knows of a piece.
struct CensusPart {
  double sum_of_squares;
  float max_abs;
  uint32_t finite;
  __device__ void join(const CensusPart& other) {
    sum_of_squares += other.sum_of_squares;
    max_abs = other.max_abs > max_abs ? other.max_abs : max_abs;
    finite &= other.finite;
  }
};

template <int = 0>
__global__ void census_kernel(const void* in, DType dtype, int64_t count, CensusPart* parts) {
  __shared__ CensusPart own[census_threads];
  CensusPart mine{0, 0, 1};
  const int64_t first = int64_t{blockIdx.x} * census_piece;
  for (int64_t i = threadIdx.x; i < census_piece && first + i < count; i += census_threads) {
    const float x = load(in, dtype, first + i), magnitude = maths::abs(x);
    const bool finite = magnitude <= 3.402823466e38f;  // not NaN either
    mine.finite &= finite;
    if (finite && magnitude > mine.max_abs) mine.max_abs = magnitude;
    mine.sum_of_squares += static_cast<double>(x) * static_cast<double>(x);
  }
  own[threadIdx.x] = mine;
  for (unsigned reach = census_threads / 2; reach > 0; reach /= 2) {
    __syncthreads();
    if (threadIdx.x < reach) own[threadIdx.x].join(own[threadIdx.x + reach]);
  }
  if (threadIdx.x == 0) parts[blockIdx.x] = own[0];
}

/// Waits for what it found.
inline Census census(const View& in, cudaStream_t stream = nullptr) {
  if (!in.contiguous()) fail(ErrorKind::internal, "E-KERNEL", "census reads contiguous tensors");
  if (in.dtype == DType::f64) {
    fail(ErrorKind::internal, "E-DEVICE-DTYPE", "census: a device reads f32 and 16-bit types, got f64");
  }
  Census all;
  const int64_t count = in.numel(), pieces = (count + census_piece - 1) / census_piece;
  if (count == 0) return all;
  const Scratch<CensusPart> parts(pieces, stream);
  launch(census_kernel<>, static_cast<unsigned>(pieces), census_threads, 0, stream, in.data, in.dtype, count,
         parts.data());
  std::vector<CensusPart> found(static_cast<size_t>(pieces));
  check_cuda(
      cudaMemcpyAsync(found.data(), parts.data(), found.size() * sizeof(CensusPart), cudaMemcpyDeviceToHost, stream),
      "census");
  check_cuda(cudaStreamSynchronize(stream), "census");
  for (const CensusPart& part : found) {
    all.finite = all.finite && part.finite;
    all.max_abs = part.max_abs > all.max_abs ? part.max_abs : all.max_abs;
    all.sum_of_squares += part.sum_of_squares;
  }
  return all;
}

}  // namespace mixtape::kernels::device
