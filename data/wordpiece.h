// WordPiece: greedy longest-match-first segmentation of one word (Wu et al., arXiv:1609.08144; as in BERT).
#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include "data/vocab.h"

namespace mixtape::data {

/// A byte trie of the vocabulary in one open-addressing table of edges: a word is walked once, however long its pieces
/// are.
class WordPiece {
 public:
  explicit WordPiece(const Vocab& vocab);

  /// Appends the ids of `word` (normalised, not empty, `characters` code points): at each place the longest token,
  /// those after the first with the prefix "##". A word with a tail that no token covers, or with more than
  /// longest_word characters, is one [UNK] as a whole.
  void encode(std::string_view word, size_t characters, std::vector<int32_t>& ids) const;

 private:
  struct Edge {
    uint32_t key = empty_key;  // node << 8 | byte
    uint32_t child = 0;
  };
  static constexpr uint32_t empty_key = 0xFFFFFFFF;
  static constexpr uint32_t no_node = 0xFFFFFFFF;
  struct Match {
    int32_t id = -1;
    size_t length = 0;
  };

  void insert(std::string_view token, int32_t id);
  uint32_t child(uint32_t node, char byte) const;
  Match longest(std::string_view text, uint32_t node) const;
  size_t slot(uint32_t key) const { return static_cast<size_t>((key * 0x9E3779B97F4A7C15u) >> shift_); }

  std::vector<Edge> edges_;        // a power of two, at most half full
  std::vector<int32_t> token_at_;  // by node: the token that ends here, or -1
  int shift_ = 0;
  uint32_t continuation_ = no_node;  // the node behind "##"
  int32_t unk_ = -1;
};

}  // namespace mixtape::data
