#include "data/unicode.h"

#include <cstring>
#include <iterator>

namespace mixtape::data {
namespace {
#include "data/unicode_table.inc"

constexpr uint16_t cased_punctuation_bit = 0x8000;

bool is_continuation(unsigned char byte) { return (byte & 0xC0) == 0x80; }

/// How many bytes follow a lead byte, and what the first of them may be (Unicode 15, table 3-7). Zero: no lead byte.
struct Lead {
  int more = 0;
  unsigned char low = 0x80, high = 0xBF;
};

Lead lead_of(unsigned char byte) {
  if (byte >= 0xC2 && byte <= 0xDF) return {1, 0x80, 0xBF};
  if (byte == 0xE0) return {2, 0xA0, 0xBF};
  if (byte == 0xED) return {2, 0x80, 0x9F};
  if (byte >= 0xE1 && byte <= 0xEF) return {2, 0x80, 0xBF};
  if (byte == 0xF0) return {3, 0x90, 0xBF};
  if (byte >= 0xF1 && byte <= 0xF3) return {3, 0x80, 0xBF};
  if (byte == 0xF4) return {3, 0x80, 0x8F};
  return {};
}
}  // namespace

char32_t decode_utf8(const char*& at, const char* end) {
  const unsigned char first = static_cast<unsigned char>(*at++);
  if (first < 0x80) return first;
  const Lead lead = lead_of(first);
  if (lead.more == 0) return replacement_character;
  char32_t code = first & (0x3Fu >> lead.more);
  for (int i = 0; i < lead.more; ++i) {
    if (at == end) return replacement_character;
    const unsigned char byte = static_cast<unsigned char>(*at);
    const bool fits = i == 0 ? byte >= lead.low && byte <= lead.high : is_continuation(byte);
    if (!fits) return replacement_character;
    code = (code << 6) | (byte & 0x3Fu);
    ++at;
  }
  return code;
}

void append_utf8(std::string& out, char32_t code) {
  const auto push = [&out](char32_t byte) { out.push_back(static_cast<char>(byte)); };
  if (code < 0x80) return push(code);
  if (code < 0x800) {
    push(0xC0 | (code >> 6));
  } else {
    if (code < 0x10000) {
      push(0xE0 | (code >> 12));
    } else {
      push(0xF0 | (code >> 18));
      push(0x80 | ((code >> 12) & 0x3F));
    }
    push(0x80 | ((code >> 6) & 0x3F));
  }
  push(0x80 | (code & 0x3F));
}

size_t first_invalid_utf8(std::string_view text) {
  const char* at = text.data();
  const char* const end = at + text.size();
  while (at != end) {
    uint64_t eight = 0;
    if (end - at >= 8 && (std::memcpy(&eight, at, 8), (eight & 0x8080808080808080u) == 0)) {
      at += 8;
      continue;
    }
    const char* const start = at;
    // A literal U+FFFD is three bytes long and well formed.
    if (decode_utf8(at, end) == replacement_character && std::string_view(start, at) != "\xEF\xBF\xBD") {
      return static_cast<size_t>(start - text.data());
    }
  }
  return text.size();
}

CharInfo classify(char32_t code) {
  CharInfo info;
  if (code > 0x10FFFF) {
    info.kind = CharClass::control;
    return info;
  }
  const uint16_t raw = entry_of[block_of[code / block_size] * block_size + code % block_size];
  const uint16_t entry = raw & static_cast<uint16_t>(~cased_punctuation_bit);
  constexpr uint16_t combining = static_cast<uint16_t>(CharClass::combining);
  constexpr uint16_t mapped = static_cast<uint16_t>(CharClass::mapped);
  if (entry < combining) {
    info.kind = static_cast<CharClass>(entry);
  } else if (entry < mapped) {
    info.kind = CharClass::combining;
    info.combining_class = combining_class[entry - combining];
  } else {
    constexpr size_t ones = std::size(map_to_one), twos = std::size(map_to_two) / 2;
    const size_t index = entry - size_t{mapped};
    info.kind = CharClass::mapped;
    info.cased_punctuation = (raw & cased_punctuation_bit) != 0;
    if (index < ones) {
      info.map_length = 1;
      info.map = map_to_one + index;
    } else if (index < ones + twos) {
      info.map_length = 2;
      info.map = map_to_two + 2 * (index - ones);
    } else {
      info.map_length = 3;
      info.map = map_to_three + 3 * (index - ones - twos);
    }
  }
  return info;
}

int decompose_hangul(char32_t syllable, char32_t jamo[3]) {
  constexpr char32_t base = 0xAC00, leading = 0x1100, vowel = 0x1161, trailing = 0x11A7;
  constexpr char32_t vowels = 21, trailings = 28;
  const char32_t index = syllable - base;
  jamo[0] = leading + index / (vowels * trailings);
  jamo[1] = vowel + index % (vowels * trailings) / trailings;
  jamo[2] = trailing + index % trailings;
  return jamo[2] == trailing ? 2 : 3;
}

}  // namespace mixtape::data
