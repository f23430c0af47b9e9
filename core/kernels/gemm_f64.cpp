#include <Eigen/Core>

#include "core/kernels/gemm_eigen.h"

namespace mixtape::kernels::engine {

void multiply(const Product<double>& product) { multiply_by_eigen(product); }

}  // namespace mixtape::kernels::engine
