// Unicode as BERT's normaliser sees it: UTF-8 in and out, and a table of what becomes of each code point.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace mixtape::data {

inline constexpr char32_t replacement_character = 0xFFFD;

/// Reads one code point at `at` (< `end`) and moves `at` behind it. Each maximal part of an ill-formed sequence reads
/// as one U+FFFD (Unicode 15, section 3.9, "U+FFFD substitution of maximal subparts"), as Python, browsers and Rust do.
char32_t decode_utf8(const char*& at, const char* end);

void append_utf8(std::string& out, char32_t code);

/// Offset of the first byte that is not part of well-formed UTF-8, or `text.size()`.
size_t first_invalid_utf8(std::string_view text);
inline bool is_valid_utf8(std::string_view text) { return first_invalid_utf8(text) == text.size(); }

/// What the normaliser does to a code point.
enum class CharClass : uint8_t {
  keep = 0,          ///< left as it is
  space = 1,         ///< ends a word
  control = 2,       ///< removed first of all: controls, format characters, private use, U+FFFD
  mark = 3,          ///< nonspacing mark with a combining class: removed with the accents
  starter_mark = 4,  ///< nonspacing mark of combining class 0: removed too, but nothing is reordered across its place
  ideograph = 5,     ///< a word of its own (Chinese characters; not kana, not Hangul)
  punctuation = 6,   ///< a word of its own
  hangul = 7,        ///< syllable: two or three jamo
  combining = 8,     ///< kept, but put into canonical order
  mapped = 16        ///< replaced: decomposed, marks removed, lower case
};

struct CharInfo {
  CharClass kind = CharClass::keep;
  uint8_t combining_class = 0;     ///< of `combining`
  bool cased_punctuation = false;  ///< a `mapped` one that is punctuation when nothing is decomposed
  uint8_t map_length = 0;          ///< of `mapped`: 1 to 3
  const char32_t* map = nullptr;   ///< of `mapped`; its code points are classified again (punctuation, ideograph)
};

/// One table look-up; anything above U+10FFFF is a control.
CharInfo classify(char32_t code);

/// Decomposes a Hangul syllable (U+AC00..U+D7A3) into two or three jamo; returns how many (Unicode 15, section 3.12).
int decompose_hangul(char32_t syllable, char32_t jamo[3]);

}  // namespace mixtape::data
