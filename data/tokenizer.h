// Tokenizer: text to the ids of an (uncased or cased) BERT, equal to the reference's (docs: shared/data/golden).
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "data/vocab.h"
#include "data/wordpiece.h"
#include "data/words.h"

namespace mixtape::data {

struct TokenizerOptions {
  bool lowercase = true;  ///< lower-case and strip accents (the reference ties the second to the first)
  bool match_special_tokens =
      false;               ///< a literal "[SEP]" in a text is that token: off for texts that one does not trust
  int64_t max_length = 0;  ///< longest result, special tokens counted; the text's tail is cut. 0: no limit
};

/// Immutable: one object serves any number of threads.
class Tokenizer {
 public:
  /// Throws E-TOKENIZER-LENGTH (config) for a negative max_length.
  explicit Tokenizer(Vocab vocab, TokenizerOptions options = {});

  /// Ids of any bytes (ill-formed UTF-8 reads as U+FFFD). With `add_special_tokens` [CLS] … [SEP], of which no limit
  /// cuts either; then a max_length of 1 is E-TOKENIZER-LENGTH (config).
  std::vector<int32_t> encode(std::string_view text, bool add_special_tokens = true) const;
  /// The tokens of those ids, as the vocabulary writes them ("##ing", "[UNK]").
  std::vector<std::string_view> pieces(std::string_view text, bool add_special_tokens = true) const;

  const Vocab& vocab() const { return vocab_; }
  const TokenizerOptions& options() const { return options_; }

 private:
  void encode_plain(std::string_view text, size_t limit, Words& words, std::vector<int32_t>& ids) const;
  size_t find_special(std::string_view text, size_t from, std::string_view& token, int32_t& id) const;

  Vocab vocab_;
  TokenizerOptions options_;
  WordPiece wordpiece_;
  std::vector<std::pair<std::string_view, int32_t>> special_;  // matched on the raw text
};

}  // namespace mixtape::data
