#include "core/kernels/gemm_eigen.h"

#include "core/error.h"

namespace mixtape::kernels::engine {

void multiply(const Product<float>& product) { multiply_by_eigen(product); }
bool multiply_bf16(const LowProduct&) { return false; }  // Eigen's own bf16 is 15 times slower than going through f32
const char* name() { return "eigen"; }
const char* version() {
  static const std::string text = message(EIGEN_WORLD_VERSION, ".", EIGEN_MAJOR_VERSION, ".", EIGEN_MINOR_VERSION);
  return text.c_str();
}
bool native_bf16() { return false; }

}  // namespace mixtape::kernels::engine
