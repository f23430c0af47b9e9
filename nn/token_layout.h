// How the tokens of a batch lie: every layer between embedding and head sees one matrix of tokens.
#pragma once

#include "ops/ops.h"

namespace mixtape::nn {

struct TokenLayout {
  ops::Sequences sequences;
  Tensor places;        ///< i64 [tokens]: where each would stand in [sequences, longest]; absent: in their order
  Tensor first_tokens;  ///< i64 [sequences]: the row of each sequence's first token
  Tensor first_places;  ///< i64 [sequences]: and where that stands
  Tensor positions;     ///< i64 [tokens]: of each in its sequence; where `places` is absent [longest], for all alike
};

/// The same layout for tensors of `device`, `visible` as it is. Layouts are made on the CPU.
TokenLayout to(const TokenLayout& layout, Device device);

/// Sequences of one length, one below the other; `visible` bool [sequences·length], or absent.
TokenLayout padded_layout(int64_t sequences, int64_t length, const Tensor& visible);
/// Sequences without padding, end to end: `offsets` i64 [sequences + 1]. Masks of dropout are drawn as if each were
/// padded to `longest`, so that they are those of the padded batch.
TokenLayout packed_layout(const Tensor& offsets, int64_t longest);

}  // namespace mixtape::nn
