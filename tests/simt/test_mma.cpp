// The wrappers of the tensor cores and their twins: products against double, and what lanes get from shared memory.
#include <doctest/doctest.h>

#include "core/kernels/mma.cuh"
#include "tests/simt/both.cuh"

namespace mixtape::simt_tests {
namespace {

template <class T>
__device__ uint32_t neighbours(const T* first) {
  return uint32_t{first[0].bits} | uint32_t{first[1].bits} << 16;
}

/// One warp: d = a·b + d of a [16, 16], b as its transpose [8, 16], d [16, 8].
template <class T, bool twin>
__global__ void mma_kernel(const T* a, const T* b, float* d) {
  const int row = static_cast<int>(threadIdx.x) / 4, column = static_cast<int>(threadIdx.x) % 4 * 2;
  uint32_t left[4];
  float sums[4];
  for (int i = 0; i < 4; ++i) left[i] = neighbours(a + (row + i % 2 * 8) * 16 + column + i / 2 * 8);
  const uint32_t low = neighbours(b + row * 16 + column), high = neighbours(b + row * 16 + column + 8);
  for (int i = 0; i < 4; ++i) sums[i] = d[(row + i / 2 * 8) * 8 + column + i % 2];
  if constexpr (twin) {
    kernels::device::mma_by_exchange<T>(left, low, high, sums);
  } else {
    kernels::device::mma_m16n8k16<T>(left, low, high, sums);
  }
  for (int i = 0; i < 4; ++i) d[(row + i / 2 * 8) * 8 + column + i % 2] = sums[i];
}

/// One warp: four matrices [8, 8] that lie side by side in shared memory, as the fragments that lanes get of them.
template <class T, bool transposed, bool twin>
__global__ void load_kernel(const T* matrices, uint32_t* out) {
  T* room = kernels::device::dynamic_shared<T>();
  for (unsigned i = threadIdx.x; i < 8 * 32; i += 32) room[i] = matrices[i];
  __syncthreads();
  const T* mine = room + threadIdx.x % 8 * 32 + threadIdx.x / 8 * 8;
  uint32_t four[4];
  if constexpr (twin) {
    kernels::device::load_matrices_by_exchange<T, transposed>(mine, four);
  } else {
    kernels::device::load_matrices<T, transposed>(mine, four);
  }
  for (unsigned m = 0; m < 4; ++m) out[threadIdx.x * 4 + m] = four[m];
}

/// Pairs of floats rounded, by one way and by the other.
template <class T>
__global__ void packed_kernel(const float* in, uint32_t* out) {
  const float *low = in + 2 * threadIdx.x, *high = low + 1;
  out[2 * threadIdx.x] = kernels::device::packed<T>(*low, *high);
  out[2 * threadIdx.x + 1] = kernels::device::packed_by_hand<T>(*low, *high);
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

std::vector<uint32_t> words_of(const DeviceBytes& bytes) {
  const std::vector<char> read = bytes.read();
  std::vector<uint32_t> words(read.size() / sizeof(uint32_t));
  std::memcpy(words.data(), read.data(), read.size());
  return words;
}

template <bool transposed, bool twin>
void loads_of() {
  std::vector<uint16_t> numbers_of(8 * 32);
  for (size_t i = 0; i < numbers_of.size(); ++i) numbers_of[i] = static_cast<uint16_t>(i);
  const DeviceBytes in(numbers_of.data(), numbers_of.size() * 2), out(nullptr, 32 * 4 * sizeof(uint32_t));
  in_all_orders([&] {
    out.reset();
    kernels::device::launch(load_kernel<half, transposed, twin>, 1, 32, 8 * 32 * sizeof(half), nullptr,
                            reinterpret_cast<const half*>(in.data()), reinterpret_cast<uint32_t*>(out.data()));
    const std::vector<uint32_t> words = words_of(out);
    for (uint32_t lane = 0; lane < 32; ++lane) {
      for (uint32_t m = 0; m < 4; ++m) {
        const uint32_t row = lane / 4, column = lane % 4 * 2;
        const uint32_t one = transposed ? column * 32 + row : row * 32 + column, step = transposed ? 32 : 1;
        CHECK(words[lane * 4 + m] == ((one + 8 * m) | (one + step + 8 * m) << 16));
      }
    }
    ++tally().cases;
  });
}

template <class T>
void packs_of() {
  std::vector<float> values{0.0f, -0.0f, 1.0f, 65504.0f, 65520.0f, 1e-8f, 3e38f, 0.1f, -7.77f, 1e-5f, 2049.0f, 257.0f};
  values.resize(64, static_cast<float>(INFINITY));
  const DeviceBytes in(values.data(), values.size() * 4), out(nullptr, 64 * sizeof(uint32_t));
  kernels::device::launch(packed_kernel<T>, 1, 32, 0, nullptr, reinterpret_cast<const float*>(in.data()),
                          reinterpret_cast<uint32_t*>(out.data()));
  const std::vector<uint32_t> words = words_of(out);
  for (size_t i = 0; i < 32; ++i) {
    const uint32_t low = convert_to<T>(values[2 * i]).bits, high = convert_to<T>(values[2 * i + 1]).bits;
    CHECK(words[2 * i] == (low | high << 16));
    CHECK(words[2 * i + 1] == (low | high << 16));
  }
  ++tally().cases;
}

}  // namespace

TEST_CASE("mma.sync m16n8k16 and its portable twin") {
  product_of<half, false>();
  product_of<bf16, false>();
  product_of<half, true>();
  product_of<bf16, true>();
}

TEST_CASE("matrices from shared memory as fragments, as they are and transposed") {
  loads_of<false, false>();
  loads_of<true, false>();
  loads_of<false, true>();
  loads_of<true, true>();
}

TEST_CASE("two floats in one register") {
  packs_of<half>();
  packs_of<bf16>();
}

}  // namespace mixtape::simt_tests
