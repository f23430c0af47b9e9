// Random bits for runs of elements.
#pragma once

#include <cstdint>

#include "core/rng.h"

namespace mixtape::kernels {

/// draws[i] = random16(at, first + i), several Philox blocks side by side.
void random16_run(const RngCoordinates& at, uint64_t first, int64_t n, uint16_t* draws);

}  // namespace mixtape::kernels
