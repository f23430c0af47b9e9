// Attention on the CPU, one head of one sequence after the other, in blocks of queries whose scores stay in the cache.
#pragma once

#include "core/kernels/attention_heads.h"

namespace mixtape::ops {

using AttentionBlocks = kernels::AttentionHeads;

/// out = dropout(softmax(scale·q·kᵀ))·v for each head: k and v are [tokens, width], q and out too, or they have one row
/// a sequence, whose queries then stand at position 0. All between is f32 (f64). A query that sees no key gives 0.
void attend(const AttentionBlocks& blocks, const View& q, const View& k, const View& v, const View& out);

/// The gradients of q, k and v from that of out; the weights are computed again. Each is rounded once.
void attend_backward(const AttentionBlocks& blocks, const View& dy, const View& q, const View& k, const View& v,
                     const View& dq, const View& dk, const View& dv);

}  // namespace mixtape::ops
