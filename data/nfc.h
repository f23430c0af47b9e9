// Unicode's normal form C: whether a text is in it. "é" as one character and as "e" with an accent look alike and are
// tokenized alike by an uncased model, but not by a cased one, and count as different texts.
#pragma once

#include <string_view>

namespace mixtape::data {

/// True when normalising to NFC would change nothing (Unicode 15, section 3.11). Ill-formed UTF-8 reads as U+FFFD.
bool is_nfc(std::string_view text);

}  // namespace mixtape::data
