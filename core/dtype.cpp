#include "core/dtype.h"

#include <array>
#include <limits>

namespace mixtape {
namespace {
struct Facts {
  std::string_view name;
  int64_t size;
  double tiny, eps, lowest;
};
constexpr std::array<Facts, dtype_count> facts = {{
    {"f32", 4, 0x1p-126, 0x1p-23, -0x1.fffffep127},
    {"f16", 2, 0x1p-14, 0x1p-10, -65504.0},
    {"bf16", 2, 0x1p-126, 0x1p-7, -0x1.fep127},
    {"f64", 8, std::numeric_limits<double>::min(), 0x1p-52, std::numeric_limits<double>::lowest()},
    {"i64", 8, 0, 0, 0},
    {"i32", 4, 0, 0, 0},
    {"u8", 1, 0, 0, 0},
    {"bool", 1, 0, 0, 0},
}};
const Facts& of(DType dtype) { return facts[static_cast<size_t>(dtype)]; }
const Facts& of_float(DType dtype, std::string_view what) {
  if (!is_float(dtype)) fail_dtype(dtype, what);
  return of(dtype);
}
}  // namespace

int64_t size_of(DType dtype) { return of(dtype).size; }
std::string_view name_of(DType dtype) { return of(dtype).name; }
double tiny(DType dtype) { return of_float(dtype, "tiny").tiny; }
double eps(DType dtype) { return of_float(dtype, "eps").eps; }
double lowest(DType dtype) { return of_float(dtype, "lowest").lowest; }

bool parse_dtype(std::string_view name, DType& out) {
  for (int i = 0; i < dtype_count; ++i) {
    if (facts[static_cast<size_t>(i)].name == name) return out = static_cast<DType>(i), true;
  }
  return false;
}

DType widest(DType a, DType b) {
  if (a == b) return a;
  return a == DType::f64 || b == DType::f64 ? DType::f64 : DType::f32;
}

void fail_dtype(DType dtype, std::string_view what) {
  fail(ErrorKind::internal, "E-DTYPE",
       message(what, ": expected a float tensor (f32, f16, bf16, f64), got ", name_of(dtype)));
}

}  // namespace mixtape
