#include "core/kernels/random.h"

#include <algorithm>
#include <bit>
#include <cstring>

#if defined(__AVX2__)
#include <immintrin.h>
#endif

namespace mixtape::kernels {
namespace {

static_assert(std::endian::native == std::endian::little, "a word's low 16 bits are the element in front");

constexpr int group = 4;          // blocks that are drawn together
constexpr int drawn = group * 8;  // elements that they serve

#if defined(__AVX2__)
// One block in each 64-bit lane.
struct PhiloxLanes {
  __m256i bits;
  PhiloxLanes() = default;
  PhiloxLanes(__m256i value) : bits(value) {}
  explicit PhiloxLanes(uint32_t value) : bits(_mm256_set1_epi64x(value)) {}
  friend PhiloxLanes operator^(PhiloxLanes a, PhiloxLanes b) { return _mm256_xor_si256(a.bits, b.bits); }
  friend PhiloxLanes operator>>(PhiloxLanes a, int n) { return _mm256_srli_epi64(a.bits, n); }
  friend PhiloxLanes low_product(PhiloxLanes c, uint32_t m) { return _mm256_mul_epu32(c.bits, PhiloxLanes(m).bits); }
};

void draw_group(const RngCoordinates& at, uint64_t block, uint16_t* draws) {
  const __m256i first = _mm256_set1_epi64x(static_cast<long long>(block));
  PhiloxLanes c[4];
  philox_block(at, PhiloxLanes(_mm256_add_epi64(first, _mm256_setr_epi64x(0, 1, 2, 3))), c);
  // Low halves of two words together; then lanes 0 and 2, 1 and 3 of both pairs beside each other.
  const __m256i front = _mm256_blend_epi32(c[0].bits, _mm256_slli_epi64(c[1].bits, 32), 0xaa);
  const __m256i back = _mm256_blend_epi32(c[2].bits, _mm256_slli_epi64(c[3].bits, 32), 0xaa);
  const __m256i even = _mm256_unpacklo_epi64(front, back), odd = _mm256_unpackhi_epi64(front, back);
  __m256i* out = reinterpret_cast<__m256i*>(draws);
  _mm256_storeu_si256(out, _mm256_permute2x128_si256(even, odd, 0x20));
  _mm256_storeu_si256(out + 1, _mm256_permute2x128_si256(even, odd, 0x31));
}
#else
void draw_group(const RngCoordinates& at, uint64_t block, uint16_t* draws) {
  for (int i = 0; i < group; ++i) {
    const Philox bits = philox_block(at, block + static_cast<uint64_t>(i));
    std::memcpy(draws + 8 * i, bits.word, sizeof bits.word);
  }
}
#endif

}  // namespace

void random16_run(const RngCoordinates& at, uint64_t first, int64_t n, uint16_t* draws) {
  uint64_t block = first / 8;
  int64_t skip = static_cast<int64_t>(first % 8);
  for (int64_t i = 0; i < n; block += group, skip = 0) {
    if (skip == 0 && n - i >= drawn) {
      draw_group(at, block, draws + i);
      i += drawn;
      continue;
    }
    uint16_t bits[drawn];
    draw_group(at, block, bits);
    const int64_t taken = std::min(drawn - skip, n - i);
    std::copy_n(bits + skip, taken, draws + i);
    i += taken;
  }
}

}  // namespace mixtape::kernels
