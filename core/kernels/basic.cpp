#include "core/kernels/basic.h"

#include <algorithm>
#include <cstring>
#include <limits>
#include <vector>

#include "core/device_module.h"
#include "core/kernels/blocks.h"
#include "core/kernels/loops.h"
#include "core/kernels/parallel.h"
#include "core/kernels/plan.h"

namespace mixtape::kernels {
namespace {

// Any pair of dtypes meets in blocks of M: float, or double where float would lose something.
bool needs_double(DType dtype) { return dtype == DType::f64 || dtype == DType::i64 || dtype == DType::i32; }

// Calls body(offset of each operand, inner stride of each, n) for blocks of the common shape.
template <int operands, class Body>
void for_blocks(const View (&views)[operands], const Body& body) {
  Plan plan = make_plan(views[0].shape, views, operands);
  int64_t stride[operands];
  const int64_t inner = plan.split_inner(stride, operands), outer = plan.count();
  if (inner == 0 || outer == 0) return;
  const int64_t blocks = (inner + block_size - 1) / block_size;
  parallel_for(outer * blocks, inner * outer, [&](int64_t begin, int64_t end) {
    for (int64_t item = begin; item < end; ++item) {
      const int64_t row = item / blocks, start = item % blocks * block_size;
      int64_t offset[operands];
      for (int k = 0; k < operands; ++k) offset[k] = plan.offset(k, row) + start * stride[k];
      body(offset, stride, std::min(block_size, inner - start));
    }
  });
}

template <class M>
void copy_through(const View& in, const View& out) {
  for_blocks<2>({out, in}, [&](const int64_t* offset, const int64_t* stride, int64_t n) {
    M buffer[block_size];
    store_any(load_any(in, offset[1], stride[1], n, buffer), out, offset[0], stride[0], n);
  });
}

template <class Unit>  // elements of equal size are equal to a copy
void copy_bits(const View& in, const View& out) {
  for_blocks<2>({out, in}, [&](const int64_t* offset, const int64_t* stride, int64_t n) {
    const Unit* from = in.as<const Unit>() + offset[1];
    Unit* to = out.as<Unit>() + offset[0];
    if (stride[0] == 1 && stride[1] == 1) {
      std::memcpy(to, from, static_cast<size_t>(n) * sizeof(Unit));
    } else {
      for (int64_t i = 0; i < n; ++i) to[i * stride[0]] = from[i * stride[1]];
    }
  });
}

template <class M>
void blend(const View& a, double fa, const View* b, double fb, const View& out) {
  const M ma = static_cast<M>(fa), mb = static_cast<M>(fb);
  for_blocks<3>({out, a, b ? *b : a}, [&](const int64_t* offset, const int64_t* stride, int64_t n) {
    M left[block_size], right[block_size];
    const M* x = load_any(a, offset[1], stride[1], n, left);
    if (b) {
      const M* y = load_any(*b, offset[2], stride[2], n, right);
      for (int64_t i = 0; i < n; ++i) left[i] = x[i] * ma + y[i] * mb;
    } else {
      for (int64_t i = 0; i < n; ++i) left[i] = x[i] * ma;
    }
    store_any<M>(left, out, offset[0], stride[0], n);
  });
}

void blend_any(const View& a, double fa, const View* b, double fb, const View& out) {
  const bool wide = a.dtype == DType::f64 || (b && b->dtype == DType::f64) || out.dtype == DType::f64;
  wide ? blend<double>(a, fa, b, fb, out) : blend<float>(a, fa, b, fb, out);
}

template <class M>
M largest_finite(const M* x, int64_t n) {
  return Lanes<M>{}.max(n, [&](int64_t i) {
    const M a = maths::abs(x[i]);
    return a <= std::numeric_limits<M>::max() ? a : M(0);
  });
}

void census_block(const double* x, int64_t n, Census& part) {
  // x·0 is 0 for every finite x and NaN for the others, and a sum of them keeps the NaN.
  const double probe = lane_sum<double>(n, [&](int64_t i) { return x[i] * 0.0; });
  part.finite = part.finite && probe == 0.0;
  part.max_abs = std::max(part.max_abs, largest_finite(x, n));
  part.sum_of_squares += lane_sum<double>(n, [&](int64_t i) { return x[i] * x[i]; });
}

void census_block(const float* x, int64_t n, Census& part) {
  // Without their sign, floats order as their bits do, inf and NaN above all finite ones.
  constexpr uint32_t infinity = 0x7f800000u;
  uint32_t largest = 0;
  for (int64_t i = 0; i < n; ++i) largest = std::max(largest, __builtin_bit_cast(uint32_t, x[i]) & 0x7fffffffu);
  const bool finite = largest < infinity;
  const float max_abs = finite ? __builtin_bit_cast(float, largest) : largest_finite(x, n);
  part.finite = part.finite && finite;
  part.max_abs = std::max(part.max_abs, static_cast<double>(max_abs));
  part.sum_of_squares +=
      lane_sum<double>(n, [&](int64_t i) { return static_cast<double>(x[i]) * static_cast<double>(x[i]); });
}

template <class M>
void census_any(const View& in, int64_t start, int64_t n, Census& part) {
  M buffer[block_size];
  census_block(load_any(in, start, 1, n, buffer), n, part);
}

}  // namespace

void fill(const View& out, double value) {
  if (!on_cpu(out)) return device_backend(out.device).fill(out, value);
  const int64_t filled = std::min(block_size, out.numel());
  double values[block_size];
  std::fill_n(values, filled, value);
  alignas(64) char block[block_size * sizeof(double)];  // converted once, then copied
  View converted = out;
  converted.data = block;
  store_any<double>(values, converted, 0, 1, filled);
  const int64_t size = size_of(out.dtype);
  for_blocks<1>({out}, [&](const int64_t* offset, const int64_t* stride, int64_t n) {
    if (stride[0] == 1)
      std::memcpy(out.as<char>() + offset[0] * size, block, static_cast<size_t>(n * size));
    else
      store_any<double>(values, out, offset[0], stride[0], n);
  });
}

void copy(const View& in, const View& out) {
  if (!on_cpu(out, in)) return device_backend("copy", {&out, &in}).copy(in, out);
  if (in.dtype != out.dtype) {
    const bool wide = needs_double(in.dtype) || needs_double(out.dtype);
    return wide ? copy_through<double>(in, out) : copy_through<float>(in, out);
  }
  switch (size_of(in.dtype)) {
    case 1: return copy_bits<uint8_t>(in, out);
    case 2: return copy_bits<uint16_t>(in, out);
    case 4: return copy_bits<uint32_t>(in, out);
    default: return copy_bits<uint64_t>(in, out);
  }
}

void scale(const View& in, double factor, const View& out) {
  if (!on_cpu(out, in)) return device_backend("scale", {&out, &in}).scale(in, factor, out);
  blend_any(in, factor, nullptr, 0, out);
}

void add_scaled(const View& a, double fa, const View& b, double fb, const View& out) {
  if (!on_cpu(out, a, b)) return device_backend("add_scaled", {&out, &a, &b}).add_scaled(a, fa, b, fb, out);
  blend_any(a, fa, &b, fb, out);
}

Census census(const View& in) {
  if (!on_cpu(in)) return device_backend(in.device).census(in);
  if (!in.contiguous()) fail(ErrorKind::internal, "E-KERNEL", "census reads contiguous tensors");
  constexpr int64_t piece = 1 << 14;
  const int64_t total = in.numel(), pieces = (total + piece - 1) / piece;
  std::vector<Census> parts(static_cast<size_t>(pieces));
  parallel_for(pieces, total, [&](int64_t begin, int64_t end) {
    for (int64_t p = begin; p < end; ++p) {
      const int64_t last = std::min(total, (p + 1) * piece);
      for (int64_t start = p * piece; start < last; start += block_size) {
        const int64_t n = std::min(block_size, last - start);
        Census& part = parts[static_cast<size_t>(p)];
        in.dtype == DType::f64 ? census_any<double>(in, start, n, part) : census_any<float>(in, start, n, part);
      }
    }
  });
  Census all;
  for (const Census& part : parts) {
    all.finite = all.finite && part.finite;
    all.max_abs = std::max(all.max_abs, part.max_abs);
    all.sum_of_squares += part.sum_of_squares;
  }
  return all;
}

}  // namespace mixtape::kernels
