#include "data/wordpiece.h"

#include <bit>

#include "data/words.h"

namespace mixtape::data {

WordPiece::WordPiece(const Vocab& vocab) : token_at_{-1}, unk_(vocab.special().unk) {
  size_t bytes = 1;  // no more edges than bytes
  for (int64_t id = 0; id < vocab.size(); ++id) bytes += vocab.token(id).size();
  edges_.resize(std::bit_ceil(2 * bytes));
  shift_ = 64 - std::countr_zero(edges_.size());
  for (int64_t id = 0; id < vocab.size(); ++id) insert(vocab.token(id), static_cast<int32_t>(id));
  const uint32_t hash = child(0, '#');
  if (hash != no_node) continuation_ = child(hash, '#');
}

void WordPiece::insert(std::string_view token, int32_t id) {
  uint32_t node = 0;
  for (const char byte : token) {
    const uint32_t key = node << 8 | static_cast<unsigned char>(byte);
    size_t at = slot(key);
    while (edges_[at].key != key && edges_[at].key != empty_key) at = (at + 1) & (edges_.size() - 1);
    if (edges_[at].key == empty_key) {
      edges_[at] = {key, static_cast<uint32_t>(token_at_.size())};
      token_at_.push_back(-1);
    }
    node = edges_[at].child;
  }
  token_at_[node] = id;
}

uint32_t WordPiece::child(uint32_t node, char byte) const {
  const uint32_t key = node << 8 | static_cast<unsigned char>(byte);
  for (size_t at = slot(key);; at = (at + 1) & (edges_.size() - 1)) {
    if (edges_[at].key == key) return edges_[at].child;
    if (edges_[at].key == empty_key) return no_node;
  }
}

WordPiece::Match WordPiece::longest(std::string_view text, uint32_t node) const {
  Match best;
  for (size_t i = 0; i < text.size(); ++i) {
    node = child(node, text[i]);
    if (node == no_node) break;
    if (token_at_[node] >= 0) best = {token_at_[node], i + 1};
  }
  return best;
}

void WordPiece::encode(std::string_view word, size_t characters, std::vector<int32_t>& ids) const {
  const size_t before = ids.size();
  const auto give_up = [&] {
    ids.resize(before);
    ids.push_back(unk_);
  };
  if (characters > longest_word) return give_up();
  uint32_t start = 0;
  while (!word.empty()) {
    // Tokens and words are valid UTF-8, so a match ends where a character ends.
    const Match match = start == no_node ? Match{} : longest(word, start);
    if (match.length == 0) return give_up();
    ids.push_back(match.id);
    word.remove_prefix(match.length);
    start = continuation_;
  }
}

}  // namespace mixtape::data
