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
inline constexpr uint32_t dropout = 0, init = 1, shuffle = 2, test = 3;
}

struct Philox {
  uint32_t word[4];
};

MIXTAPE_HD inline Philox philox4x32(uint32_t c0, uint32_t c1, uint32_t c2, uint32_t c3, uint32_t k0, uint32_t k1) {
  for (int round = 0; round < 10; ++round) {
    const uint64_t p0 = uint64_t{0xD2511F53u} * c0, p1 = uint64_t{0xCD9E8D57u} * c2;
    const uint32_t n0 = static_cast<uint32_t>(p1 >> 32) ^ c1 ^ k0, n2 = static_cast<uint32_t>(p0 >> 32) ^ c3 ^ k1;
    c0 = n0;
    c1 = static_cast<uint32_t>(p1);
    c2 = n2;
    c3 = static_cast<uint32_t>(p0);
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return {{c0, c1, c2, c3}};
}

/// The 128 random bits that elements 8·block … 8·block+7 share.
MIXTAPE_HD inline Philox philox_block(const RngCoordinates& at, uint64_t block) {
  // A draw index needs few bits, a micro-step too: they share a word, so that the block keeps 32 bits and the step 32.
  const uint32_t place = (at.micro_step << 16) ^ at.draw;
  return philox4x32(static_cast<uint32_t>(block), at.step, place, static_cast<uint32_t>(block >> 32),
                    static_cast<uint32_t>(at.seed), static_cast<uint32_t>(at.seed >> 32) ^ (at.stream * 0x9E3779B9u));
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
