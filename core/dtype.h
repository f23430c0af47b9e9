// Element types, their names and sizes, and the dispatch from a DType to a C++ type.
#pragma once

#include <cstdint>
#include <string_view>

#include "core/error.h"
#include "core/half.h"

namespace mixtape {

enum class DType : uint8_t { f32, f16, bf16, f64, i64, i32, u8, boolean };
inline constexpr int dtype_count = 8;

int64_t size_of(DType dtype);                         ///< bytes of one element
std::string_view name_of(DType dtype);                ///< "f32", "f16", "bf16", "f64", "i64", "i32", "u8", "bool"
bool parse_dtype(std::string_view name, DType& out);  ///< false when the name is unknown

constexpr bool is_float(DType d) { return d <= DType::f64; }
constexpr bool is_low(DType d) { return d == DType::f16 || d == DType::bf16; }
/// What parameters, statistics and wide gradients beside data of this dtype are: f64 for f64, else f32.
constexpr DType wide(DType d) { return d == DType::f64 ? DType::f64 : DType::f32; }
/// The float dtype that holds every value of both: f16 and bf16 meet in f32.
DType widest(DType a, DType b);

double tiny(DType dtype);    ///< smallest positive normal number of a float dtype
double eps(DType dtype);     ///< distance from 1 to the next larger number
double lowest(DType dtype);  ///< most negative finite number

template <class T>
struct TypeTag {
  using type = T;
};

template <class T>
inline constexpr DType dtype_of = DType::f32;
template <>
inline constexpr DType dtype_of<half> = DType::f16;
template <>
inline constexpr DType dtype_of<bf16> = DType::bf16;
template <>
inline constexpr DType dtype_of<double> = DType::f64;
template <>
inline constexpr DType dtype_of<int64_t> = DType::i64;
template <>
inline constexpr DType dtype_of<int32_t> = DType::i32;
template <>
inline constexpr DType dtype_of<uint8_t> = DType::u8;
template <>
inline constexpr DType dtype_of<bool> = DType::boolean;

/// What formulas compute in: double for f64 (gradcheck), float for every other type.
template <class T>
struct MathType {
  using type = float;
};
template <>
struct MathType<double> {
  using type = double;
};
template <class T>
using math_t = typename MathType<T>::type;

[[noreturn]] void fail_dtype(DType dtype, std::string_view what);

/// Calls `f(TypeTag<T>{})` with the C++ type of a float dtype; anything else throws E-DTYPE naming `what`.
template <class F>
void dispatch_float(DType dtype, std::string_view what, F&& f) {
  switch (dtype) {
    case DType::f32: return f(TypeTag<float>{});
    case DType::f16: return f(TypeTag<half>{});
    case DType::bf16: return f(TypeTag<bf16>{});
    case DType::f64: return f(TypeTag<double>{});
    default: fail_dtype(dtype, what);
  }
}

}  // namespace mixtape
