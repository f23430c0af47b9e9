// BERT's own vocabulary, for the tests that compare with the reference's ids.
#pragma once

#include "data/tokenizer.h"
#include "tests/shared.h"

namespace mixtape::tests {

/// Needs the folder of golden data: ask no_shared() first.
inline data::Tokenizer bert_tokenizer(data::TokenizerOptions options = {true, true, 0}) {
  return data::Tokenizer(data::Vocab::load(shared_path("data/bert/vocab.txt")), options);
}

}  // namespace mixtape::tests
