#include "data/nfc.h"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <utility>

#include "data/unicode.h"

namespace mixtape::data {
namespace {

struct CodeRange {
  char32_t first, last;
  uint8_t value;
};
using CodePair = std::pair<char32_t, char32_t>;

#include "data/nfc_table.inc"

template <size_t Count>
const CodeRange* find_range(const CodeRange (&ranges)[Count], char32_t code) {
  const CodeRange* found = std::upper_bound(std::begin(ranges), std::end(ranges), code,
                                            [](char32_t c, const CodeRange& range) { return c < range.first; });
  return found != std::begin(ranges) && code <= std::prev(found)->last ? std::prev(found) : nullptr;
}

uint8_t combining_class(char32_t code) {
  const CodeRange* range = find_range(combining_classes, code);
  return range == nullptr ? 0 : range->value;
}

/// Jamo of a syllable, or a syllable without a final consonant and one (section 3.12).
bool composes_to_hangul(char32_t first, char32_t second) {
  const bool lead = first >= 0x1100 && first < 0x1113, vowel = second >= 0x1161 && second < 0x1176;
  const bool open = first >= 0xAC00 && first < 0xD7A4 && (first - 0xAC00) % 28 == 0;
  return (lead && vowel) || (open && second > 0x11A7 && second < 0x11C3);
}

bool composes(char32_t first, char32_t second) {
  return std::binary_search(std::begin(composed_pairs), std::end(composed_pairs), CodePair(first, second)) ||
         composes_to_hangul(first, second);
}

}  // namespace

bool is_nfc(std::string_view text) {
  const bool ascii = std::all_of(text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < 0x80; });
  if (ascii) return true;
  const char* at = text.data();
  const char* end = at + text.size();
  char32_t starter = 0;
  uint8_t before = 0;     // the class of the character before
  bool adjacent = false;  // nothing stands between the starter and this character
  while (at < end) {
    const char32_t code = decode_utf8(at, end);
    const uint8_t own = combining_class(code);
    if (find_range(never_in_nfc, code) != nullptr || (own != 0 && before > own)) return false;
    const bool blocked = !adjacent && before >= own;
    if (starter != 0 && !blocked && composes(starter, code)) return false;
    if (own == 0) starter = code;
    adjacent = own == 0;
    before = own;
  }
  return true;
}

}  // namespace mixtape::data
