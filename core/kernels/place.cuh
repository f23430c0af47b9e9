// What a loop on a GPU knows of its operands, and how elements come from and go to memory: four at a time where they
// lie side by side, converted to float and back, rounded once.
#pragma once

#include "core/kernels/launch.cuh"
#include "core/kernels/plan.h"

namespace mixtape::kernels::device {

/// An operand without its shape, which the plan knows.
struct Place {
  void* data;  ///< of an operand that picks: the index
  const void* table;
  int64_t table_stride;  ///< from row to row of the table
  int64_t table_rows;
  int64_t inner_stride;  ///< along a row, or along the innermost axis of a map
  RngCoordinates draw;
  DType dtype;
  bool writes, sums, random, statistic;
};
template <int count>
struct Places {
  Place at[count];
};

inline __device__ float load(const void* data, DType dtype, int64_t offset) {
  switch (dtype) {
    case DType::f32: return static_cast<const float*>(data)[offset];
    case DType::f16: return to_float(static_cast<const half*>(data)[offset]);
    case DType::bf16: return to_float(static_cast<const bf16*>(data)[offset]);
    case DType::f64: return static_cast<float>(static_cast<const double*>(data)[offset]);
    case DType::i64: return static_cast<float>(static_cast<const int64_t*>(data)[offset]);
    case DType::i32: return static_cast<float>(static_cast<const int32_t*>(data)[offset]);
    default: return static_cast<float>(static_cast<const uint8_t*>(data)[offset]);  // u8, bool
  }
}

inline __device__ void store(void* data, DType dtype, int64_t offset, float value) {
  switch (dtype) {
    case DType::f16: static_cast<half*>(data)[offset] = to_half(value); return;
    case DType::bf16: static_cast<bf16*>(data)[offset] = to_bf16(value); return;
    default: static_cast<float*>(data)[offset] = value;  // loops write float tensors only
  }
}

inline __device__ bool has_16_bits(DType dtype) { return dtype == DType::f16 || dtype == DType::bf16; }

inline constexpr int lanes = 4;  // elements that move together: 16 bytes of f32, 8 of a 16-bit type

/// Four elements from `offset`, which lie side by side and whose first is aligned to all four.
inline __device__ void load_four(const void* data, DType dtype, int64_t offset, float (&out)[lanes]) {
  if (dtype == DType::f32) {
    const float4 four = *reinterpret_cast<const float4*>(static_cast<const float*>(data) + offset);
    out[0] = four.x, out[1] = four.y, out[2] = four.z, out[3] = four.w;
  } else if (has_16_bits(dtype)) {
    const uint2 two = *reinterpret_cast<const uint2*>(static_cast<const uint16_t*>(data) + offset);
    const uint32_t word[2] = {two.x, two.y};
    for (int j = 0; j < lanes; ++j) {
      const uint16_t bits = static_cast<uint16_t>(word[j / 2] >> (16 * (j % 2)));
      out[j] = dtype == DType::f16 ? to_float(half{bits}) : to_float(bf16{bits});
    }
  } else {
    for (int j = 0; j < lanes; ++j) out[j] = load(data, dtype, offset + j);
  }
}

inline __device__ void store_four(void* data, DType dtype, int64_t offset, const float (&value)[lanes]) {
  if (!has_16_bits(dtype)) {
    *reinterpret_cast<float4*>(static_cast<float*>(data) + offset) = float4{value[0], value[1], value[2], value[3]};
    return;
  }
  uint32_t word[2] = {};
  for (int j = 0; j < lanes; ++j) {
    const uint32_t bits = dtype == DType::f16 ? to_half(value[j]).bits : to_bf16(value[j]).bits;
    word[j / 2] |= bits << (16 * (j % 2));
  }
  *reinterpret_cast<uint2*>(static_cast<uint16_t*>(data) + offset) = uint2{word[0], word[1]};
}

/// `count` random elements from `first`; where they share a block of eight, one Philox for all.
template <int width>
__device__ void draw(const RngCoordinates& at, int64_t first, float (&out)[width]) {
  const Philox bits = philox_block(at, static_cast<uint64_t>(first) / 8);
  for (int j = 0; j < width; ++j) {
    const int in_block = static_cast<int>(first % 8) + j;
    out[j] = static_cast<float>(in_block < 8 ? bits.word[in_block / 2] >> (16 * (in_block % 2)) & 0xffffu
                                             : random16(at, static_cast<uint64_t>(first + j)));
  }
}

/// Division by a number that is known at the launch, as a multiplication (Granlund and Montgomery, "Division by
/// invariant integers using multiplication", 1994). Exact for every index; the fast way is for those below 2^31.
struct Divider {
  uint32_t magic = 0, shift = 0;
  int64_t size = 1;
  Divider() = default;
  explicit Divider(int64_t by) : size(by) {
    if (by < 1 || by > int64_t{1} << 30) return;
    while (int64_t{1} << shift < by) ++shift;
    const uint64_t power = uint64_t{1} << shift, divisor = static_cast<uint64_t>(by);
    magic = static_cast<uint32_t>((((power - divisor) << 32) / divisor) + 1);
  }
  __device__ int64_t quotient(int64_t index) const {
    if (magic == 0 || index >= int64_t{1} << 31) return index / size;
    const uint32_t low = static_cast<uint32_t>(index);
    return ((uint64_t{low} * magic >> 32) + low) >> shift;
  }
};

/// A plan as a GPU walks it.
template <int count>
struct Walk {
  int rank = 0;
  Divider size[max_rank];
  int64_t stride[count][max_rank] = {};

  explicit Walk(const Plan& plan) : rank(plan.rank) {
    for (int i = 0; i < rank; ++i) {
      size[i] = Divider(plan.size[i]);
      for (int k = 0; k < count; ++k) stride[k][i] = plan.stride[k][i];
    }
  }
  /// Adds to `at` the offsets of all operands at the row-major position `index`.
  __device__ void add_offsets(int64_t index, int64_t (&at)[count]) const {
    for (int i = rank - 1; i >= 0; --i) {
      const int64_t next = i == 0 ? 0 : size[i].quotient(index), here = index - next * size[i].size;
      for (int k = 0; k < count; ++k) at[k] += here * stride[k][i];
      index = next;
    }
  }
};

/// What the host knows of operands, for a kernel. f64 is for gradient checks, and these run on the CPU.
template <int count>
Places<count> places_of(const Operand* operands) {
  Places<count> places;
  for (int k = 0; k < count; ++k) {
    const Operand& o = operands[k];
    const View& v = o.view;
    const View& values = o.picks ? o.table : v;
    if ((v && v.device.is_cpu()) || (values && values.device.is_cpu())) {
      fail(ErrorKind::internal, "E-DEVICE-MIXED", "a device's loop got a tensor of the CPU: move it with to()");
    }
    if (values && values.dtype == DType::f64) {
      fail(ErrorKind::internal, "E-DEVICE-DTYPE",
           "a device's loops compute in f32: f64 is for gradient checks on the CPU");
    }
    const bool statistic = o.is_statistic();
    const int64_t inner = values && !statistic && !o.random ? values.strides.back() : 1;
    places.at[k] = {v.data,
                    o.table.data,
                    o.picks ? o.table.strides[0] : 0,
                    o.picks ? o.table.shape[0] : 0,
                    inner,
                    o.draw,
                    values.dtype,
                    o.writes,
                    o.sums,
                    o.random,
                    statistic};
  }
  return places;
}
template <int count>
void views_of(const Operand* operands, View (&views)[count]) {
  for (int k = 0; k < count; ++k) views[k] = operands[k].view;
}

inline bool aligned_for_four(const void* data, DType dtype) {
  return reinterpret_cast<uintptr_t>(data) % static_cast<uintptr_t>(lanes * size_of(dtype)) == 0;
}

}  // namespace mixtape::kernels::device
