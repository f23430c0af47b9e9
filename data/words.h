// Normalised words: what BERT's normaliser and pre-tokenizer make of a text, in one pass and two buffers.
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace mixtape::data {

/// A longer word, in characters, is one [UNK] whatever it holds: the reference's limit.
inline constexpr size_t longest_word = 100;

/// The words of one text. Reuse one object for many texts: its buffers keep their capacity.
class Words {
 public:
  struct Word {
    size_t begin = 0, end = 0;  ///< bytes of the buffer
    size_t characters = 0;
  };

  /// Replaces the words by those of `text` (any bytes; ill-formed UTF-8 reads as U+FFFD, which is removed): controls
  /// removed, white space ends a word, each ideograph and each punctuation mark is a word of its own. With `lowercase`
  /// characters are also decomposed, stripped of nonspacing marks and lower-cased, each by itself; without it nothing
  /// else changes.
  void split(std::string_view text, bool lowercase);

  size_t size() const { return words_.size(); }
  std::string_view operator[](size_t i) const {
    return std::string_view(bytes_).substr(words_[i].begin, words_[i].end - words_[i].begin);
  }
  size_t characters(size_t i) const { return words_[i].characters; }

 private:
  void end_word();
  void add(char32_t code);
  void add_word(char32_t code);
  void add_normalised(char32_t code);
  void add_cased(char32_t code);
  void add_mapped(char32_t code);
  void insert_in_order(char32_t code, uint8_t combining_class);

  std::string bytes_;
  std::vector<Word> words_;
  size_t word_begin_ = 0, characters_ = 0;
  size_t barrier_ = 0;  // nothing is reordered across this byte: a starter was removed here
};

}  // namespace mixtape::data
