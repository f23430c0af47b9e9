#include "nn/init.h"

#include "core/factory.h"

namespace mixtape::nn {

void init_normal(const NamedTensor& parameter, double std, uint64_t seed) {
  uint64_t hash = 14695981039346656037u;  // FNV-1a of the name: where in the stream this parameter stands
  for (const char letter : parameter.name) hash = (hash ^ static_cast<unsigned char>(letter)) * 1099511628211u;
  RngCoordinates at;
  at.seed = seed;
  at.stream = rng_stream::init;
  at.step = static_cast<uint32_t>(hash);
  at.draw = static_cast<uint32_t>(hash >> 32);
  assign(parameter.tensor, randn(parameter.tensor.shape(), at, std));
}

void init_normal(const Module& root, double std, uint64_t seed) {
  for (const NamedTensor& parameter : root.parameters()) {
    if (parameter.tensor.rank() >= 2) init_normal(parameter, std, seed);
  }
}

}  // namespace mixtape::nn
