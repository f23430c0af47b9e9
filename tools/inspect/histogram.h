// Histogram: magnitudes in bins that are powers of two, and what a 16-bit format would make of them at any loss scale.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>

#include "core/tensor.h"

namespace mixtape::inspect {

/// A 16-bit format, in exponents of two; derived from eps, tiny and lowest of its element type.
struct LowFormat {
  DType dtype = DType::f16;
  int fraction_bits = 0;
  int smallest = 0;         ///< 2^smallest is the smallest positive number, a subnormal one
  int smallest_normal = 0;  ///< numbers below 2^smallest_normal have fewer digits
  int largest = 0;          ///< the largest finite number lies in [2^largest, 2^(largest + 1))
};
/// Of f16 or bf16; E-DTYPE (internal) for any other.
LowFormat low_format(DType dtype);

/// What becomes of values that are multiplied by a loss scale and rounded once, to nearest even, to a 16-bit format.
struct Fate {
  int64_t zero = 0;       ///< were 0 before
  int64_t flushed = 0;    ///< were not 0 and are now: up to half of the smallest subnormal
  int64_t subnormal = 0;  ///< keep fewer digits
  int64_t normal = 0;
  int64_t overflow = 0;  ///< were finite and are inf now
  int64_t inf = 0, nan = 0;

  int64_t count() const { return zero + flushed + subnormal + normal + overflow + inf + nan; }
  /// Of the values that were neither 0 nor inf nor NaN, the share that is 0 now; 0 when there are none.
  double lost() const;
  Fate& operator+=(const Fate& other);
  friend bool operator==(const Fate&, const Fate&) = default;
};

/// The same for each value by itself, at a scale that need be no power of two (it must be an f32: sweeps start from
/// one).
Fate fate_of(std::span<const float> values, const LowFormat& format, double scale);
Fate fate_of(const Tensor& values, const LowFormat& format, double scale);

/// Counts of f32 values by the exponent of their magnitude, subnormal ones by that of their leading bit.
class Histogram {
 public:
  static constexpr int lowest = -149, highest = 127;  ///< the exponents of f32

  void add(std::span<const float> values);
  /// Float values of any dtype and layout that f32 holds exactly.
  void add(const Tensor& values);
  Histogram& operator+=(const Histogram& other);

  int64_t count() const;
  int64_t zero() const { return zero_; }
  int64_t inf() const { return inf_; }
  int64_t nan() const { return nan_; }
  /// Values in [2^exponent, 2^(exponent + 1)); 0 outside of f32.
  int64_t in_bin(int exponent) const;
  /// The lowest and the highest exponent that occurs; absent without a finite value other than 0.
  std::optional<int> first() const;
  std::optional<int> last() const;

  /// At the scale 2^shift.
  Fate fate(const LowFormat& format, int shift) const;
  /// The largest finite magnitude.
  double largest() const;
  /// The largest k at which nothing overflows at scale × 2^k. Absent where no k can help (inf or NaN before any scale)
  /// or every one does (nothing but 0).
  std::optional<int> headroom(const LowFormat& format, double scale) const;
  /// The largest loss scale 2^s at which nothing overflows, within what a loss scale may be: [2^-126, 2^126].
  std::optional<int> largest_safe(const LowFormat& format) const;
  /// The smallest 2^s at which less than `share` of the values other than 0 become 0; absent when there are none.
  std::optional<int> smallest_losing_less(const LowFormat& format, double share) const;

 private:
  /// Rounding moves a value across a power of two only from one end of a bin: those that stand there are counted too.
  struct Bin {
    int64_t count = 0;
    int64_t power = 0;                 // exactly 2^exponent
    std::array<int64_t, 4> ones = {};  // with so many leading ones of the fraction, or more: 7, 8, 10, 11
  };
  Bin& bin(int exponent) { return bins_[static_cast<size_t>(exponent - lowest)]; }
  const Bin& bin(int exponent) const { return bins_[static_cast<size_t>(exponent - lowest)]; }
  /// Values of the bin that round up to the next power of two with so many bits behind the leading one.
  int64_t rounding_up(int exponent, int fraction_bits) const;

  std::array<Bin, highest - lowest + 1> bins_ = {};
  int64_t zero_ = 0, inf_ = 0, nan_ = 0;
  uint32_t largest_ = 0;  // the bits of the magnitude
};

}  // namespace mixtape::inspect
