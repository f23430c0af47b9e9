// What attention's loops on the CPU and its kernels on a device are told about a batch.
#pragma once

#include "core/rng.h"
#include "core/view.h"

namespace mixtape::kernels {

/// What the heads of a batch have in common.
struct AttentionHeads {
  int64_t heads;
  double scale;       ///< of the scores
  double p;           ///< of dropping a weight
  RngCoordinates at;  ///< of the mask of the weights, as elements of [sequences, heads, longest, longest]
  int64_t longest;    ///< what the sequences are padded to, if only in thought
  View offsets;       ///< i64 [sequences + 1]: sequence s holds the tokens from offsets[s] to offsets[s + 1]
  View visible;       ///< bool [tokens], or absent: every key is seen
};

}  // namespace mixtape::kernels
