#include "tools/inspect/histogram.h"

#include <algorithm>
#include <bit>
#include <cmath>

#include "core/dtype.h"
#include "core/factory.h"

namespace mixtape::inspect {
namespace {

constexpr int f32_fraction = 23, f32_smallest_normal = -126, f32_bias = 127;
constexpr int smallest_scale = -126, largest_scale = 126;  // as amp::check() has it
constexpr std::array<int, 4> leading_ones = {7, 8, 10, 11};

/// The elements as f32 in one piece of memory: the tensor itself where it is one.
Tensor as_floats(const Tensor& values) {
  return values.dtype() == DType::f32 && values.contiguous() ? values : copy_of(values, DType::f32);
}

std::span<const float> span_of(const Tensor& floats) {
  return {floats.data<float>(), static_cast<size_t>(floats.numel())};
}

}  // namespace

LowFormat low_format(DType dtype) {
  if (!is_low(dtype)) fail_dtype(dtype, "a 16-bit format");
  LowFormat out{.dtype = dtype, .fraction_bits = -std::ilogb(eps(dtype)), .smallest_normal = std::ilogb(tiny(dtype))};
  out.smallest = out.smallest_normal - out.fraction_bits;
  out.largest = std::ilogb(-lowest(dtype));
  return out;
}

double Fate::lost() const {
  const int64_t all = flushed + subnormal + normal + overflow;
  return all == 0 ? 0 : static_cast<double>(flushed) / static_cast<double>(all);
}

Fate& Fate::operator+=(const Fate& other) {
  zero += other.zero;
  flushed += other.flushed;
  subnormal += other.subnormal;
  normal += other.normal;
  overflow += other.overflow;
  inf += other.inf;
  nan += other.nan;
  return *this;
}

Fate fate_of(std::span<const float> values, const LowFormat& format, double scale) {
  // Where rounding to nearest even changes its mind; a tie goes to the even number, 0 or the next power of two.
  const double tie = std::ldexp(1.0, format.smallest - 1);
  const double normal = std::ldexp(1.0, format.smallest_normal) - tie;
  const double overflow = std::ldexp(2.0 - std::ldexp(1.0, -format.fraction_bits - 1), format.largest);
  Fate out;
  for (const float value : values) {
    if (std::isnan(value)) {
      ++out.nan;
    } else if (std::isinf(value)) {
      ++out.inf;
    } else {
      const double scaled = std::abs(static_cast<double>(value)) * scale;  // exact: 24 bits by 24
      ++(value == 0          ? out.zero
         : scaled <= tie     ? out.flushed
         : scaled < normal   ? out.subnormal
         : scaled < overflow ? out.normal
                             : out.overflow);
    }
  }
  return out;
}

Fate fate_of(const Tensor& values, const LowFormat& format, double scale) {
  const Tensor floats = as_floats(values);
  return fate_of(span_of(floats), format, scale);
}

void Histogram::add(std::span<const float> values) {
  for (const float value : values) {
    const uint32_t magnitude = std::bit_cast<uint32_t>(value) & 0x7fffffffu;
    if (magnitude == 0 || magnitude >= 0x7f800000u) {
      ++(magnitude == 0 ? zero_ : magnitude == 0x7f800000u ? inf_ : nan_);
      continue;
    }
    // A subnormal one has its leading bit further down, and is shifted to where others have it.
    const int down = std::max(0, std::countl_zero(magnitude) - 8);
    const int exponent =
        magnitude < 0x800000u ? f32_smallest_normal - down : static_cast<int>(magnitude >> f32_fraction) - f32_bias;
    const uint32_t fraction = (magnitude << (magnitude < 0x800000u ? down : 0)) & 0x7fffffu;
    Bin& at = bin(exponent);
    ++at.count;
    largest_ = std::max(largest_, magnitude);
    if (fraction == 0) ++at.power;
    const int ones = std::countl_one(fraction << (32 - f32_fraction));
    for (size_t i = 0; i < leading_ones.size() && ones >= leading_ones[i]; ++i) ++at.ones[i];
  }
}

void Histogram::add(const Tensor& values) {
  const Tensor floats = as_floats(values);
  add(span_of(floats));
}

Histogram& Histogram::operator+=(const Histogram& other) {
  for (size_t i = 0; i < bins_.size(); ++i) {
    bins_[i].count += other.bins_[i].count;
    bins_[i].power += other.bins_[i].power;
    for (size_t k = 0; k < leading_ones.size(); ++k) bins_[i].ones[k] += other.bins_[i].ones[k];
  }
  zero_ += other.zero_;
  inf_ += other.inf_;
  nan_ += other.nan_;
  largest_ = std::max(largest_, other.largest_);
  return *this;
}

int64_t Histogram::count() const {
  int64_t all = zero_ + inf_ + nan_;
  for (const Bin& at : bins_) all += at.count;
  return all;
}

int64_t Histogram::in_bin(int exponent) const {
  return exponent < lowest || exponent > highest ? 0 : bin(exponent).count;
}

std::optional<int> Histogram::first() const {
  for (int e = lowest; e <= highest; ++e) {
    if (bin(e).count > 0) return e;
  }
  return std::nullopt;
}

std::optional<int> Histogram::last() const {
  for (int e = highest; e >= lowest; --e) {
    if (bin(e).count > 0) return e;
  }
  return std::nullopt;
}

int64_t Histogram::rounding_up(int exponent, int fraction_bits) const {
  // The tie above the last number of the bin: one more leading one than there are bits.
  const auto* at = std::find(leading_ones.begin(), leading_ones.end(), fraction_bits + 1);
  return bin(exponent).ones[static_cast<size_t>(at - leading_ones.begin())];
}

Fate Histogram::fate(const LowFormat& format, int shift) const {
  Fate out{.zero = zero_, .inf = inf_, .nan = nan_};
  for (int e = lowest; e <= highest; ++e) {
    const Bin& at = bin(e);
    const int scaled = e + shift;
    if (at.count == 0) continue;
    if (scaled < format.smallest - 1) {
      out.flushed += at.count;
    } else if (scaled < format.smallest_normal) {
      const int64_t tie = scaled == format.smallest - 1 ? at.power : 0;
      const int64_t up = scaled == format.smallest_normal - 1 ? rounding_up(e, format.fraction_bits - 1) : 0;
      out.flushed += tie;
      out.normal += up;
      out.subnormal += at.count - tie - up;
    } else {
      const int64_t over = scaled > format.largest    ? at.count
                           : scaled == format.largest ? rounding_up(e, format.fraction_bits)
                                                      : 0;
      out.overflow += over;
      out.normal += at.count - over;
    }
  }
  return out;
}

double Histogram::largest() const { return std::bit_cast<float>(largest_); }

std::optional<int> Histogram::headroom(const LowFormat& format, double scale) const {
  if (largest_ == 0 || inf_ > 0 || nan_ > 0) return std::nullopt;
  int exponent = 0;
  const double significand = 2 * std::frexp(largest() * scale, &exponent);  // in [1, 2), of 2^(exponent - 1)
  const bool rounds_up = significand >= 2 - std::ldexp(1.0, -format.fraction_bits - 1);
  return format.largest - (exponent - 1) - (rounds_up ? 1 : 0);
}

std::optional<int> Histogram::largest_safe(const LowFormat& format) const {
  const std::optional<int> shift = headroom(format, 1);
  return shift ? std::optional(std::clamp(*shift, smallest_scale, largest_scale)) : std::nullopt;
}

std::optional<int> Histogram::smallest_losing_less(const LowFormat& format, double share) const {
  if (!first()) return std::nullopt;
  for (int shift = smallest_scale; shift <= largest_scale; ++shift) {
    if (fate(format, shift).lost() < share) return shift;
  }
  return std::nullopt;
}

}  // namespace mixtape::inspect
