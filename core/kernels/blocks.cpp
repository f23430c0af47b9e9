#include "core/kernels/blocks.h"

#if defined(__AVX__)
#include <immintrin.h>
#endif

namespace mixtape::kernels {

template <class M>
const M* load_any(const View& v, int64_t offset, int64_t stride, int64_t n, M* buffer) {
  switch (v.dtype) {
    case DType::f32: return load_block(v.as<const float>() + offset, stride, n, buffer);
    case DType::f16: return load_block(v.as<const half>() + offset, stride, n, buffer);
    case DType::bf16: return load_block(v.as<const bf16>() + offset, stride, n, buffer);
    case DType::f64: return load_block(v.as<const double>() + offset, stride, n, buffer);
    case DType::i64: return load_block(v.as<const int64_t>() + offset, stride, n, buffer);
    case DType::i32: return load_block(v.as<const int32_t>() + offset, stride, n, buffer);
    case DType::u8: return load_block(v.as<const uint8_t>() + offset, stride, n, buffer);
    // As bytes, which hold 0 or 1: loads of bool are not vectorised.
    case DType::boolean: return load_block(v.as<const uint8_t>() + offset, stride, n, buffer);
  }
  return buffer;
}

template <class M>
void store_any(const M* block, const View& v, int64_t offset, int64_t stride, int64_t n) {
  switch (v.dtype) {
    case DType::f32: return store_block(block, v.as<float>() + offset, stride, n);
    case DType::f16: return store_block(block, v.as<half>() + offset, stride, n);
    case DType::bf16: return store_block(block, v.as<bf16>() + offset, stride, n);
    case DType::f64: return store_block(block, v.as<double>() + offset, stride, n);
    case DType::i64: return store_block(block, v.as<int64_t>() + offset, stride, n);
    case DType::i32: return store_block(block, v.as<int32_t>() + offset, stride, n);
    case DType::u8: return store_block(block, v.as<uint8_t>() + offset, stride, n);
    case DType::boolean: return store_block(block, v.as<bool>() + offset, stride, n);
  }
}

template <class M>
void stream_any(const M* block, const View& v, int64_t offset, int64_t n) {
#if defined(__AVX__)
  char* out = v.as<char>() + offset * size_of(v.dtype);
  if (std::is_same_v<M, float> && is_low(v.dtype) && reinterpret_cast<uintptr_t>(out) % 32 == 0 && n % 16 == 0) {
    alignas(32) bf16 rounded[block_size];
    View here = v;
    here.data = rounded;
    store_any(block, here, 0, 1, n);
    for (int64_t i = 0; i < n; i += 16) {
      _mm256_stream_si256(reinterpret_cast<__m256i*>(out + 2 * i),
                          _mm256_load_si256(reinterpret_cast<const __m256i*>(rounded + i)));
    }
    return;
  }
#endif
  store_any(block, v, offset, 1, n);
}

void fence_streams() {
#if defined(__AVX__)
  _mm_sfence();
#endif
}

template void stream_any(const float*, const View&, int64_t, int64_t);
template void stream_any(const double*, const View&, int64_t, int64_t);
template const float* load_any(const View&, int64_t, int64_t, int64_t, float*);
template const double* load_any(const View&, int64_t, int64_t, int64_t, double*);
template void store_any(const float*, const View&, int64_t, int64_t, int64_t);
template void store_any(const double*, const View&, int64_t, int64_t, int64_t);

}  // namespace mixtape::kernels
