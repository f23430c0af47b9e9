// Character-level helpers of the JSON reader: UTF-8 and the explanation of words that are not JSON.
#pragma once

#include <string>
#include <string_view>

namespace mixtape::config {

/// Length in bytes of the UTF-8 sequence that `text` starts with; 0 when it is not valid UTF-8 (overlong forms,
/// surrogates and values above U+10FFFF are not).
size_t utf8_length(std::string_view text);

/// Appends the code point as UTF-8; a lone surrogate U+DC80..U+DCFF appends the single byte 0x80..0xFF that it stands
/// for.
void append_utf8(std::string& out, unsigned code_point);

/// True for JSON's number grammar: -?(0|[1-9][0-9]*)(.[0-9]+)?([eE][+-]?[0-9]+)?
bool is_json_number(std::string_view word);

/// Why `word` is not a JSON value, and what to write instead ("write true"); "" for a plain word, which only lacks
/// quotes.
std::string explain_word(std::string_view word);

}  // namespace mixtape::config
