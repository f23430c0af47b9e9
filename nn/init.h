// Initial weights.
#pragma once

#include "nn/module.h"

namespace mixtape::nn {

/// Draws every parameter of rank 2 and more from a normal distribution of mean 0; vectors (biases, γ, β) stay as their
/// layers made them. Each parameter's numbers are a pure function of (seed, its name): adding a layer changes no other.
void init_normal(const Module& root, double std, uint64_t seed);
/// The same for one parameter.
void init_normal(const NamedTensor& parameter, double std, uint64_t seed);

}  // namespace mixtape::nn
