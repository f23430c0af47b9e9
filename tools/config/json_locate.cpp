#include "tools/config/json_locate.h"

#include <algorithm>
#include <charconv>
#include <unordered_map>
#include <utility>

#include "core/error.h"
#include "tools/config/json_text.h"

namespace mixtape::config {
namespace {

constexpr size_t kMaxBytes = 1'000'000;
constexpr int kMaxDepth = 64;
constexpr std::string_view kWordCharacters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_+-.$";

/// Leaves the descent after a problem behind which nothing can be trusted; never leaves `read_json`.
struct Stop {};

class Reader {
 public:
  explicit Reader(std::string_view text) : text_(text) {}

  Document read() {
    try {
      check_start();
      blanks();
      if (at_end()) stop("E-CONFIG-SYNTAX", "there is nothing in it; a configuration is one object: { … }");
      document_.root = value(1);
      blanks();
      if (!at_end()) stop("E-CONFIG-SYNTAX", "the configuration ended before this; a } too many, or a second one?");
      document_.complete = true;
    } catch (const Stop&) {
    }
    return std::move(document_);
  }

 private:
  bool at_end() const { return at_ == text_.size(); }
  char peek() const { return at_end() ? '\0' : text_[at_]; }
  bool next_is(std::string_view piece) const { return text_.substr(at_, piece.size()) == piece; }

  void skip(size_t bytes) {
    for (; bytes > 0; --bytes) {
      const auto c = static_cast<unsigned char>(text_[at_++]);
      if (c == '\n') {
        ++place_.line;
        place_.column = 1;
      } else if ((c & 0xC0) != 0x80) {  // a character counts once, at its first byte
        ++place_.column;
      }
    }
  }

  void report(std::string_view code, Position at, std::string subject, std::string text) {
    document_.problems.push_back({std::string(code), at, std::move(subject), std::move(text)});
  }
  void report(std::string text) { report("E-CONFIG-SYNTAX", place_, path(), std::move(text)); }
  [[noreturn]] void stop(std::string_view code, std::string text) {
    report(code, place_, path(), std::move(text));
    throw Stop{};
  }

  std::string path() const {
    std::string out;
    for (const std::string& key : keys_) out += (out.empty() ? "" : ".") + key;
    return out;
  }

  void check_start() {
    if (text_.size() > kMaxBytes) {
      stop("E-CONFIG-SIZE", message("a configuration has at most ", int64_t{kMaxBytes}, " bytes, this one has ",
                                    static_cast<int64_t>(text_.size()), "; is it the right file?"));
    }
    if (next_is("\xFF\xFE") || next_is("\xFE\xFF")) stop("E-CONFIG-SYNTAX", "this is UTF-16: save the file as UTF-8");
    if (next_is("\xEF\xBB\xBF")) at_ += 3;
  }

  void blanks() {
    while (!at_end()) {
      if (std::string_view(" \t\r\n").find(peek()) != std::string_view::npos) {
        skip(1);
      } else if (next_is("//")) {
        while (!at_end() && peek() != '\n') skip(1);
      } else if (next_is("/*")) {
        const size_t end = text_.find("*/", at_ + 2);
        if (end == std::string_view::npos) stop("E-CONFIG-SYNTAX", "this comment is never closed: write */");
        skip(end + 2 - at_);
      } else {
        return;
      }
    }
  }

  Value value(int depth) {
    if (depth > kMaxDepth) stop("E-CONFIG-DEPTH", message("nested more than ", kMaxDepth, " levels deep"));
    const Position start = place_;
    Value out;
    if (peek() == '{') {
      out = object(depth);
    } else if (peek() == '[') {
      out = array(depth);
    } else if (peek() == '"') {
      const size_t problems = document_.problems.size();
      out.text = string();
      out.kind = document_.problems.size() == problems ? Kind::string : Kind::invalid;
    } else {
      out = word();
    }
    out.at = start;
    return out;
  }

  Value object(int depth) {
    Value out;
    out.kind = Kind::object;
    std::unordered_map<std::string, Position> seen;
    skip(1);
    blanks();
    while (peek() != '}') {
      Member member = key();
      keys_.push_back(member.key);
      const auto [first, is_new] = seen.emplace(member.key, member.at);
      if (!is_new) {
        report("E-CONFIG-DUPLICATE", member.at, path(),
               message("the same key stands at ", first->second.line, ":", first->second.column, " already; keep one"));
      }
      blanks();
      if (peek() != ':') stop("E-CONFIG-SYNTAX", "a : must stand between a key and its value");
      skip(1);
      blanks();
      member.value = value(depth + 1);
      keys_.pop_back();
      if (is_new) out.members.push_back(std::move(member));
      separator('}');
    }
    skip(1);
    return out;
  }

  Value array(int depth) {
    Value out;
    out.kind = Kind::array;
    skip(1);
    blanks();
    while (peek() != ']') {
      out.items.push_back(value(depth + 1));
      separator(']');
    }
    skip(1);
    return out;
  }

  /// After an element: a comma and the next one, or the closing bracket.
  void separator(char close) {
    blanks();
    if (peek() == ',') {
      const Position comma = place_;
      skip(1);
      blanks();
      if (peek() == close) {
        report("E-CONFIG-SYNTAX", comma, path(), message("a comma before the closing ", close, ": leave it out"));
      } else if (close == '}' && peek() >= '0' && peek() <= '9') {
        stop("E-CONFIG-SYNTAX", "a key must follow the comma. a decimal comma? write 0.5, with a point");
      }
    } else if (at_end()) {
      stop("E-CONFIG-SYNTAX", message("the file ends, and a ", close, " is missing"));
    } else if (peek() != close) {
      stop("E-CONFIG-SYNTAX", message("a comma or the closing ", close, " must stand before this"));
    }
  }

  Member key() {
    Member out;
    out.at = place_;
    if (peek() == '"') {
      out.key = string();
      return out;
    }
    const std::string_view bare = take_word();
    if (bare.empty())
      bad_character(at_end() ? "the file ends, and a } is missing" : "a key in double quotes must stand here");
    report("E-CONFIG-SYNTAX", out.at, path(), message("a key stands in double quotes: write ", quote_json(bare)));
    out.key = bare;
    return out;
  }

  std::string_view take_word() {
    const size_t end = std::min(text_.find_first_not_of(kWordCharacters, at_), text_.size());
    const std::string_view out = text_.substr(at_, end - at_);
    skip(out.size());
    return out;
  }

  [[noreturn]] void bad_character(std::string otherwise) {
    if (peek() == '\'') stop("E-CONFIG-SYNTAX", "strings stand in double quotes: \"…\"");
    if (peek() == '#') stop("E-CONFIG-SYNTAX", "a comment starts with // (or /*, and ends with */)");
    for (const std::string_view quote : {"\u201C", "\u201D", "\u201E", "\u2018", "\u2019", "\u00AB", "\u00BB"}) {
      if (next_is(quote)) stop("E-CONFIG-SYNTAX", "typographic quotes: write plain double quotes \"…\"");
    }
    stop("E-CONFIG-SYNTAX", std::move(otherwise));
  }

  Value word() {
    Value out;
    const Position start = place_;
    const std::string_view spelled = take_word();
    if (spelled.empty()) bad_character(at_end() ? "the file ends where a value must stand" : "a value must stand here");
    out.text = spelled;
    if (spelled == "null") {
      out.kind = Kind::null;
    } else if (spelled == "true" || spelled == "false") {
      out.kind = Kind::boolean;
      out.boolean = spelled == "true";
    } else if (is_json_number(spelled)) {
      out.kind = Kind::number;
      number(out, start);
    } else {
      out.kind = Kind::invalid;
      std::string why = explain_word(spelled);
      if (why.empty()) why = message("a word stands in double quotes: write ", quote_json(spelled));
      report("E-CONFIG-SYNTAX", start, subject(spelled), std::move(why));
    }
    return out;
  }

  void number(Value& out, Position start) {
    const std::from_chars_result read = std::from_chars(out.text.data(), out.text.data() + out.text.size(), out.number);
    if (read.ec == std::errc()) return;
    out.kind = Kind::invalid;
    const bool tiny = out.text.find("e-") != std::string::npos || out.text.find("E-") != std::string::npos;
    report("E-CONFIG-RANGE", start, subject(out.text),
           tiny ? "too small: it would be read as 0; write 0 if that is meant"
                : "too large for a 64-bit floating-point number (the largest is about 1.8e308)");
  }

  std::string subject(std::string_view spelled) const {
    const std::string where = path();
    Value shown;
    shown.kind = Kind::invalid;
    shown.text = spelled;
    return where.empty() ? spelling(shown) : where + " = " + spelling(shown);
  }

  std::string string() {
    std::string out;
    const Position start = place_;
    skip(1);
    while (peek() != '"') {
      if (at_end() || peek() == '\n') {
        place_ = start;
        stop("E-CONFIG-SYNTAX", "this string is not closed on its line: a \" is missing");
      }
      if (peek() == '\\') {
        escape(out);
        continue;
      }
      const size_t bytes = utf8_length(text_.substr(at_));
      if (bytes == 0) {
        report("not valid UTF-8: save the file as UTF-8");
      } else if (static_cast<unsigned char>(peek()) < 0x20) {
        report("a control character in a string: write an escape, \\t for a tab");
      }
      out.append(text_.substr(at_, std::max<size_t>(bytes, 1)));
      skip(std::max<size_t>(bytes, 1));
    }
    skip(1);
    return out;
  }

  void escape(std::string& out) {
    constexpr std::string_view names = "\"\\/bfnrt", meanings = "\"\\/\b\f\n\r\t";
    const char kind = at_ + 1 < text_.size() ? text_[at_ + 1] : '\0';
    const size_t index = names.find(kind);
    if (kind != '\0' && index != std::string_view::npos) {
      out.push_back(meanings[index]);
      skip(2);
    } else if (kind == 'u') {
      unicode_escape(out);
    } else {
      report("no such escape; a backslash itself is written \\\\");
      out.push_back('\\');
      skip(1);
    }
  }

  /// \uXXXX; two of them for a code point above U+FFFF.
  void unicode_escape(std::string& out) {
    unsigned high = 0, low = 0;
    if (!four_digits(at_, high) || high == 0) {
      report(high == 0 && four_digits(at_, high) ? "the character NUL cannot be part of a value"
                                                 : "four hexadecimal digits must follow \\u");
      skip(2);
      return;
    }
    if (high >= 0xD800 && high <= 0xDBFF && next_is_escape(at_ + 6) && four_digits(at_ + 6, low) && low >= 0xDC00 &&
        low <= 0xDFFF) {
      append_utf8(out, 0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00));
      skip(12);
      return;
    }
    const bool lone_surrogate = high >= 0xD800 && high <= 0xDFFF && !(high >= 0xDC80 && high <= 0xDCFF);
    if (lone_surrogate) {
      report("half of a surrogate pair: write both halves, or the character itself");
    } else {
      append_utf8(out, high);
    }
    skip(6);
  }

  bool next_is_escape(size_t at) const { return at + 1 < text_.size() && text_[at] == '\\' && text_[at + 1] == 'u'; }
  bool four_digits(size_t at, unsigned& value) const {
    if (at + 6 > text_.size()) return false;
    const char* begin = text_.data() + at + 2;
    const std::from_chars_result read = std::from_chars(begin, begin + 4, value, 16);
    return read.ec == std::errc() && read.ptr == begin + 4;
  }

  std::string_view text_;
  size_t at_ = 0;
  Position place_;
  std::vector<std::string> keys_;
  Document document_;
};

}  // namespace

Document read_json(std::string_view text) { return Reader(text).read(); }

std::string quote_json(std::string_view text) {
  constexpr std::string_view hex = "0123456789abcdef";
  std::string out = "\"";
  for (size_t at = 0; at < text.size();) {
    const size_t bytes = utf8_length(text.substr(at));
    const auto byte = static_cast<unsigned char>(text[at]);
    if (bytes == 0) {
      out.append({'\\', 'u', 'd', 'c', hex[byte >> 4], hex[byte & 15]});
    } else if (byte < 0x20) {
      out.append({'\\', 'u', '0', '0', hex[byte >> 4], hex[byte & 15]});
    } else if (byte == '"' || byte == '\\') {
      out.append({'\\', text[at]});
    } else {
      out.append(text.substr(at, bytes));
    }
    at += std::max<size_t>(bytes, 1);
  }
  return out + '"';
}

std::string spelling(const Value& value) {
  constexpr size_t longest = 40;
  switch (value.kind) {
    case Kind::object: return "{…}";
    case Kind::array: return "[…]";
    case Kind::null: return "null";
    default: break;
  }
  size_t end = 0;
  while (end < value.text.size() && end < longest)
    end += std::max<size_t>(utf8_length(std::string_view(value.text).substr(end)), 1);
  const std::string shown = value.text.substr(0, end) + (end < value.text.size() ? "…" : "");
  return value.kind == Kind::string ? quote_json(shown) : shown;
}

const Value* find_member(const Value& object, std::string_view key) {
  const auto found = std::find_if(object.members.begin(), object.members.end(),
                                  [&](const Member& member) { return member.key == key; });
  return found == object.members.end() ? nullptr : &found->value;
}

}  // namespace mixtape::config
