// The wrapper of the tensor cores: fragments of random matrices against the product in double.
#include <doctest/doctest.h>

#include "core/kernels/mma.cuh"
#include "tests/simt/both.cuh"

namespace mixtape::simt_tests {
namespace {

using kernels::device::MmaFragments;

template <class T>
__device__ uint32_t neighbours(const T* first) {
  return uint32_t{first[0].bits} | uint32_t{first[1].bits} << 16;
}

/// One warp: d = a·b + d of a [16, 16], b as its transpose [8, 16], d [16, 8].
template <class T, bool twin>
__global__ void mma_kernel(const T* a, const T* b, float* d) {
  const int row = static_cast<int>(threadIdx.x) / 4, column = static_cast<int>(threadIdx.x) % 4 * 2;
  MmaFragments f;
  for (int i = 0; i < 4; ++i) f.a[i] = neighbours(a + (row + i % 2 * 8) * 16 + column + i / 2 * 8);
  for (int i = 0; i < 2; ++i) f.b[i] = neighbours(b + row * 16 + column + i * 8);
  for (int i = 0; i < 4; ++i) f.d[i] = d[(row + i / 2 * 8) * 8 + column + i % 2];
  if constexpr (twin) {
    kernels::device::mma_by_shuffles<T>(f);
  } else {
    kernels::device::mma_m16n8k16<T>(f);
  }
  for (int i = 0; i < 4; ++i) d[(row + i / 2 * 8) * 8 + column + i % 2] = f.d[i];
}

template <class T, bool twin>
void product_of() {
  const Tensor a = numbers({16, 16}, dtype_of<T>, 1), b = numbers({8, 16}, dtype_of<T>, 2),
               d = numbers({16, 8}, DType::f32, 3);
  const Pair on_a(a), on_b(b), on_d(d);
  const std::vector<double> x = to_vector(a), y = to_vector(b);
  std::vector<double> expected = to_vector(d);
  for (size_t i = 0; i < 16; ++i) {
    for (size_t j = 0; j < 8; ++j) {
      for (size_t k = 0; k < 16; ++k) expected[i * 8 + j] += x[i * 16 + k] * y[j * 16 + k];
    }
  }
  in_all_orders([&] {
    on_d.bytes().reset();
    kernels::device::launch(mma_kernel<T, twin>, 1, 32, 0, nullptr, on_a.device().template as<const T>(),
                            on_b.device().template as<const T>(), on_d.device().template as<float>());
    check_near(expected, on_d.device_values(), DType::f32, 16);
    ++tally().cases;
  });
}

}  // namespace

TEST_CASE("mma.sync m16n8k16 and its portable twin") {
  product_of<half, false>();
  product_of<bf16, false>();
  product_of<half, true>();
  product_of<bf16, true>();
}

}  // namespace mixtape::simt_tests
