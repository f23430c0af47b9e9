#include "data/words.h"

#include <algorithm>
#include <array>

#include "data/unicode.h"

namespace mixtape::data {
namespace {
constexpr char ends_word = 0, vanishes = 1, own_word = 2;  // controls, so never the value of a kept character

/// What becomes of each ASCII character: itself, its lower case, or one of the three marks above.
constexpr std::array<char, 128> make_ascii(bool lowercase) {
  std::array<char, 128> table{};
  for (int c = 0; c < 128; ++c) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z'), digit = c >= '0' && c <= '9';
    char value = own_word;
    if (c == ' ' || c == '\t' || c == '\n' || c == '\r') {
      value = ends_word;
    } else if (c < 0x20 || c == 0x7F) {
      value = vanishes;
    } else if (letter || digit) {
      value = static_cast<char>(lowercase && c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c);
    }
    table[static_cast<size_t>(c)] = value;
  }
  return table;
}
constexpr std::array<char, 128> ascii_lower = make_ascii(true), ascii_cased = make_ascii(false);
}  // namespace

void Words::split(std::string_view text, bool lowercase) {
  bytes_.clear();
  words_.clear();
  word_begin_ = characters_ = barrier_ = 0;
  const std::array<char, 128>& ascii = lowercase ? ascii_lower : ascii_cased;
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at != end) {
    const unsigned char byte = static_cast<unsigned char>(*at);
    if (byte >= 0x80) {
      const char32_t code = decode_utf8(at, end);
      lowercase ? add_normalised(code) : add_cased(code);
      continue;
    }
    ++at;
    const char value = ascii[byte];
    if (value > own_word) {
      bytes_.push_back(value);
      ++characters_;
    } else if (value == ends_word) {
      end_word();
    } else if (value == own_word) {
      add_word(byte);
    }
  }
  end_word();
}

void Words::end_word() {
  const size_t end = bytes_.size();
  if (end != word_begin_) words_.push_back({word_begin_, end, characters_});
  word_begin_ = end;
  characters_ = 0;
}

void Words::add(char32_t code) {
  append_utf8(bytes_, code);
  ++characters_;
}

void Words::add_word(char32_t code) {
  end_word();
  add(code);
  end_word();
}

void Words::add_cased(char32_t code) {
  const CharInfo info = classify(code);
  switch (info.kind) {
    case CharClass::space: return end_word();
    case CharClass::control: return;
    case CharClass::ideograph:
    case CharClass::punctuation: return add_word(code);
    case CharClass::mapped: {
      // A compatibility ideograph is one that maps to an ideograph.
      const bool ideograph = info.map_length == 1 && classify(info.map[0]).kind == CharClass::ideograph;
      return ideograph || info.cased_punctuation ? add_word(code) : add(code);
    }
    default: return add(code);
  }
}

void Words::add_normalised(char32_t code) {
  const CharInfo info = classify(code);
  switch (info.kind) {
    case CharClass::keep: return add(code);
    case CharClass::space: return end_word();
    case CharClass::control:
    case CharClass::mark: return;
    case CharClass::starter_mark: barrier_ = bytes_.size(); return;
    case CharClass::ideograph:
    case CharClass::punctuation: return add_word(code);
    case CharClass::combining: return insert_in_order(code, info.combining_class);
    case CharClass::hangul: {
      char32_t jamo[3];
      const int count = decompose_hangul(code, jamo);
      for (int i = 0; i < count; ++i) add(jamo[i]);
      return;
    }
    case CharClass::mapped:
      for (int i = 0; i < info.map_length; ++i) add_mapped(info.map[i]);
      return;
  }
}

void Words::add_mapped(char32_t code) {
  const CharInfo info = classify(code);
  switch (info.kind) {
    case CharClass::ideograph:
    case CharClass::punctuation: return add_word(code);
    case CharClass::combining: return insert_in_order(code, info.combining_class);
    default: return add(code);  // mappings hold nothing that would be mapped again
  }
}

void Words::insert_in_order(char32_t code, uint8_t combining_class) {
  // A word that is [UNK] anyway needs no order, and a megabyte of marks in the worst order would cost hours.
  if (characters_ >= longest_word) return add(code);
  // Canonical ordering (Unicode 15, section 3.11): step back over characters of a higher class; starters have none.
  size_t place = bytes_.size();
  const size_t stop = std::max(word_begin_, barrier_);
  while (place > stop) {
    size_t previous = place - 1;
    while ((static_cast<unsigned char>(bytes_[previous]) & 0xC0) == 0x80) --previous;
    const char* at = bytes_.data() + previous;
    if (classify(decode_utf8(at, bytes_.data() + bytes_.size())).combining_class <= combining_class) break;
    place = previous;
  }
  std::string encoded;
  append_utf8(encoded, code);
  bytes_.insert(place, encoded);
  ++characters_;
}

}  // namespace mixtape::data
