// What an optimizer's formula sees of a parameter: on the CPU a block of elements, on a GPU those of one thread.
#pragma once

#include <cstdint>

namespace mixtape::optim {

/// Arrays of M (float; double for f64 parameters) of `n` elements.
template <class M>
struct Block {
  int64_t n;
  M* parameter;  ///< read and written
  const M* raw;  ///< the gradient before its multiplier
  M* state[2];   ///< null beyond the states there are
};

}  // namespace mixtape::optim
