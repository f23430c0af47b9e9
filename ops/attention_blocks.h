// Attention on the CPU, one head of one sequence after the other, in blocks of queries whose scores stay in the cache.
#pragma once

#include "core/rng.h"
#include "core/view.h"

namespace mixtape::ops {

/// What the heads of a batch have in common.
struct AttentionBlocks {
  int64_t heads;
  double scale;       ///< of the scores
  double p;           ///< of dropping a weight
  RngCoordinates at;  ///< of the mask of the weights, as elements of [sequences, heads, longest, longest]
  int64_t longest;    ///< what the sequences are padded to, if only in thought
  View offsets;       ///< i64 [sequences + 1]: sequence s holds the tokens from offsets[s] to offsets[s + 1]
  View visible;       ///< bool [tokens], or absent: every key is seen
};

/// out = dropout(softmax(scale·q·kᵀ))·v for each head: k and v are [tokens, width], q and out too, or they have one row
/// a sequence, whose queries then stand at position 0. All between is f32 (f64). A query that sees no key gives 0.
void attend(const AttentionBlocks& blocks, const View& q, const View& k, const View& v, const View& out);

/// The gradients of q, k and v from that of out; the weights are computed again. Each is rounded once.
void attend_backward(const AttentionBlocks& blocks, const View& dy, const View& q, const View& k, const View& v,
                     const View& dq, const View& dk, const View& dv);

}  // namespace mixtape::ops
