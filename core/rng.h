// Counter-based random numbers: every draw is a pure function of its coordinates, so nothing is saved and nothing
// drifts. Philox4x32-10: Salmon, Moraes, Dror and Shaw, "Parallel random numbers: as easy as 1, 2, 3" (2011).
#pragma once

#include <cstdint>

#include "core/hd.h"

namespace mixtape {

/// Where a random tensor stands: key = (seed, stream), counter = (element / 8, step, micro-step and draw).
struct RngCoordinates {
  uint64_t seed = 0;
  uint32_t stream = 0;
  uint32_t step = 0;
  uint32_t micro_step = 0;
  uint32_t draw = 0;  ///< index of the random draw within this forward
};

/// Independent families of draws under one seed.
namespace rng_stream {
inline constexpr uint32_t dropout = 0, init = 1, shuffle = 2, test = 3, rounding = 4;
}

struct Philox {
  uint32_t word[4];
};

/// m times the low half of c.
MIXTAPE_HD inline uint64_t low_product(uint64_t c, uint32_t m) { return (c & 0xffffffffu) * m; }

/// The ten rounds over four words, of which only the low halves count. W is uint64_t, or several of them side by side
/// (core/kernels/random.cpp).
template <class W>
MIXTAPE_HD inline void philox_rounds(W (&c)[4], uint32_t k0, uint32_t k1) {
  for (int round = 0; round < 10; ++round) {
    const W p0 = low_product(c[0], 0xD2511F53u), p1 = low_product(c[2], 0xCD9E8D57u);
    c[0] = (p1 >> 32) ^ c[1] ^ W(k0);
    c[1] = p1;
    c[2] = (p0 >> 32) ^ c[3] ^ W(k1);
    c[3] = p0;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
}

MIXTAPE_HD inline Philox philox4x32(uint32_t c0, uint32_t c1, uint32_t c2, uint32_t c3, uint32_t k0, uint32_t k1) {
  uint64_t c[4] = {c0, c1, c2, c3};
  philox_rounds(c, k0, k1);
  Philox out;
  for (int i = 0; i < 4; ++i) out.word[i] = static_cast<uint32_t>(c[i]);
  return out;
}

/// Leaves in c the words of block number `block`: the 128 random bits that elements 8·block … 8·block+7 share.
template <class W>
MIXTAPE_HD inline void philox_block(const RngCoordinates& at, W block, W (&c)[4]) {
  // A draw index needs few bits, a micro-step too: they share a word, so that the block keeps 64 bits and the step 32.
  c[0] = block;
  c[1] = W(at.step);
  c[2] = W((at.micro_step << 16) ^ at.draw);
  c[3] = block >> 32;
  philox_rounds(c, static_cast<uint32_t>(at.seed), static_cast<uint32_t>(at.seed >> 32) ^ (at.stream * 0x9E3779B9u));
}

MIXTAPE_HD inline Philox philox_block(const RngCoordinates& at, uint64_t block) {
  uint64_t c[4];
  philox_block(at, block, c);
  Philox out;
  for (int i = 0; i < 4; ++i) out.word[i] = static_cast<uint32_t>(c[i]);
  return out;
}

/// 16 random bits for one element.
MIXTAPE_HD inline uint16_t random16(const RngCoordinates& at, uint64_t element) {
  const Philox p = philox_block(at, element / 8);
  return static_cast<uint16_t>(p.word[(element % 8) / 2] >> (16 * (element % 2)));
}

/// Uniform in (0, 1), 32 bits, element by element.
MIXTAPE_HD inline double uniform32(const RngCoordinates& at, uint64_t element) {
  const Philox p = philox_block(at, element / 4);
  return (p.word[element % 4] + 0.5) * 0x1p-32;
}

}  // namespace mixtape
