#include "tools/config/json_text.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cstdint>

#include "core/error.h"

namespace mixtape::config {
namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

size_t digits(std::string_view text, size_t from) {
  size_t end = from;
  while (end < text.size() && is_digit(text[end])) ++end;
  return end - from;
}

std::string lower(std::string_view text) {
  std::string out(text);
  for (char& c : out) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  return out;
}

bool is_one_of(std::string_view word, std::initializer_list<std::string_view> words) {
  return std::find(words.begin(), words.end(), word) != words.end();
}

/// A number that a programming language would take and JSON does not.
std::string explain_number(std::string_view word) {
  std::string plain(word);
  plain.erase(std::remove(plain.begin(), plain.end(), '_'), plain.end());
  if (plain.size() != word.size() && is_json_number(plain)) return message("no underscores in numbers: write ", plain);
  const bool negative = word[0] == '-';
  const std::string_view sign = negative ? "-" : "";
  const std::string_view digits_only = word.substr(negative || word[0] == '+' ? 1 : 0);
  if (word[0] == '+' && is_json_number(digits_only)) return message("no plus sign: write ", digits_only);
  if (digits_only.size() > 2 && digits_only[0] == '0' && (digits_only[1] == 'x' || digits_only[1] == 'X')) {
    uint64_t value = 0;
    const char* end = digits_only.data() + digits_only.size();
    const std::from_chars_result read = std::from_chars(digits_only.data() + 2, end, value, 16);
    if (read.ec == std::errc() && read.ptr == end && value < (uint64_t{1} << 53)) {
      return message("no hexadecimal numbers: write ", sign, static_cast<int64_t>(value));
    }
    return "no hexadecimal numbers: write it in decimal";
  }
  if (digits_only[0] == '.' && is_json_number(message("0", digits_only))) {
    return message("a number starts with a digit: write ", sign, "0", digits_only);
  }
  if (digits_only.back() == '.' && is_json_number(digits_only.substr(0, digits_only.size() - 1))) {
    return message("a digit must follow the point: write ", sign, digits_only, "0");
  }
  const size_t zeros = std::min(digits_only.find_first_not_of('0'), digits_only.size());
  if (zeros > 0 && is_json_number(digits_only.substr(zeros))) {
    return message("no leading zeros: write ", sign, digits_only.substr(zeros));
  }
  return "not a number as JSON writes them (42, -0.5, 2e-5)";
}

}  // namespace

size_t utf8_length(std::string_view text) {
  const auto byte = [&](size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u; };
  const auto follows = [&](size_t i) { return (byte(i) & 0xC0) == 0x80; };
  const unsigned first = byte(0);
  if (text.empty()) return 0;
  if (first < 0x80) return 1;
  if (first >= 0xC2 && first <= 0xDF) return follows(1) ? 2 : 0;
  if (first >= 0xE0 && first <= 0xEF) {
    const bool overlong = first == 0xE0 && byte(1) < 0xA0;
    const bool surrogate = first == 0xED && byte(1) >= 0xA0;
    return follows(1) && follows(2) && !overlong && !surrogate ? 3 : 0;
  }
  if (first >= 0xF0 && first <= 0xF4) {
    const bool overlong = first == 0xF0 && byte(1) < 0x90;
    const bool too_large = first == 0xF4 && byte(1) >= 0x90;
    return follows(1) && follows(2) && follows(3) && !overlong && !too_large ? 4 : 0;
  }
  return 0;
}

void append_utf8(std::string& out, unsigned code_point) {
  const auto push = [&](unsigned byte) { out.push_back(static_cast<char>(byte)); };
  if (code_point >= 0xDC80 && code_point <= 0xDCFF) {
    push(code_point - 0xDC00);
  } else if (code_point < 0x80) {
    push(code_point);
  } else if (code_point < 0x800) {
    push(0xC0 | code_point >> 6);
    push(0x80 | (code_point & 0x3F));
  } else if (code_point < 0x10000) {
    push(0xE0 | code_point >> 12);
    push(0x80 | (code_point >> 6 & 0x3F));
    push(0x80 | (code_point & 0x3F));
  } else {
    push(0xF0 | code_point >> 18);
    push(0x80 | (code_point >> 12 & 0x3F));
    push(0x80 | (code_point >> 6 & 0x3F));
    push(0x80 | (code_point & 0x3F));
  }
}

bool is_json_number(std::string_view word) {
  size_t at = word.substr(0, 1) == "-" ? 1 : 0;
  const size_t whole = digits(word, at);
  if (whole == 0 || (whole > 1 && word[at] == '0')) return false;
  at += whole;
  if (at < word.size() && word[at] == '.') {
    const size_t fraction = digits(word, at + 1);
    if (fraction == 0) return false;
    at += 1 + fraction;
  }
  if (at < word.size() && (word[at] == 'e' || word[at] == 'E')) {
    ++at;
    if (at < word.size() && (word[at] == '+' || word[at] == '-')) ++at;
    const size_t exponent = digits(word, at);
    if (exponent == 0) return false;
    at += exponent;
  }
  return at == word.size();
}

std::string explain_word(std::string_view word) {
  if (word.empty()) return {};
  const std::string small = lower(word);
  const std::string bare = small.substr(small.find_first_not_of("+-") == 1 ? 1 : 0);
  if (is_one_of(small, {"true", "yes", "on"})) return "not JSON: write true";
  if (is_one_of(small, {"false", "no"})) return "not JSON: write false";
  if (small == "off") return "not JSON: write false, or \"off\" where a word is meant";
  if (is_one_of(small, {"null", "none", "nil"})) return "not JSON: write null, or \"none\" where a word is meant";
  if (is_one_of(bare, {"nan", "inf", "infinity"})) return "JSON has no NaN and no infinity: write a finite number";
  const bool numeric =
      is_digit(word[0]) || (word.size() > 1 && std::string_view("+-.").find(word[0]) != std::string_view::npos &&
                            (is_digit(word[1]) || word[1] == '.'));
  if (numeric) return explain_number(word);
  return {};
}

}  // namespace mixtape::config
