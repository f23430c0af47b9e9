// One JSON object a line. Its own small reader: a text may hold bytes that are not UTF-8, which libraries refuse.
#include <array>
#include <cstdint>

#include "core/error.h"
#include "data/dataset.h"
#include "data/file.h"
#include "data/records.h"
#include "data/unicode.h"

namespace mixtape::data {
namespace {

constexpr int kMostLevels = 64;

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

bool is_digit(char c) { return c >= '0' && c <= '9'; }

/// Reads one line. Each function returns false after it has left a reason in `fault_`.
class LineParser {
 public:
  explicit LineParser(std::string_view line) : line_(line) {}

  bool object(Record& record) {
    bool text = false, label = false;
    skip_blanks();
    if (!expect('{', "an object { … }")) return false;
    for (bool first = true; !accept('}'); first = false) {
      std::string key;
      if (!first && !expect(',', "a comma or }")) return false;
      skip_blanks();
      if (!string(key) || !expect(':', "a colon after the key")) return false;
      bool* seen = key == "text" ? &text : key == "label" ? &label : nullptr;
      if (seen != nullptr && *seen) return refuse(message("\"", key, "\" stands there twice"));
      if (seen != nullptr) *seen = true;
      skip_blanks();
      if (!(seen == &text ? text_value(record.text) : seen == &label ? label_value(record.label) : skip_value(0)))
        return false;
    }
    if (at_ != line_.size()) return refuse(message("something follows the object, at byte ", at_ + 1));
    if (!text || !label) return refuse(message("no \"", text ? "label" : "text", "\" in the object"));
    return true;
  }

  const std::string& fault() const { return fault_; }

 private:
  bool refuse(std::string what) {
    fault_ = std::move(what);
    return false;
  }
  bool refuse_here(std::string_view wanted) {
    return refuse(at_ < line_.size() ? message("not JSON: expected ", wanted, " at byte ", at_ + 1)
                                     : message("not JSON: the line ends where ", wanted, " is expected"));
  }

  char peek() const { return at_ < line_.size() ? line_[at_] : '\0'; }

  void skip_blanks() {
    while (at_ < line_.size() && (line_[at_] == ' ' || line_[at_] == '\t' || line_[at_] == '\r')) ++at_;
  }

  /// Blanks, the character when it is there, blanks.
  bool accept(char c) {
    skip_blanks();
    if (peek() != c || at_ == line_.size()) return false;
    ++at_;
    skip_blanks();
    return true;
  }
  bool expect(char c, std::string_view wanted) { return accept(c) || refuse_here(wanted); }

  bool text_value(std::string& text) {
    if (peek() != '"') return refuse("\"text\" must be a string");
    return string(text);
  }

  bool label_value(std::string& label) {
    if (peek() == '"') return string(label);
    const size_t begin = at_;
    const bool is_number = peek() == '-' || is_digit(peek());
    if (!skip_value(0)) return false;
    label = line_.substr(begin, at_ - begin);
    if (is_number && label.find_first_of(".eE") == std::string::npos) return true;
    return refuse(message("\"label\" must be a string or an integer", is_number ? ", not " + label : ""));
  }

  bool string(std::string& out) {
    if (peek() != '"') return refuse_here("a string");
    ++at_;
    while (at_ < line_.size()) {
      const char c = line_[at_++];
      if (c == '"') return true;
      if (static_cast<unsigned char>(c) < 0x20) return refuse(message("a control character in a string, byte ", at_));
      if (c != '\\') {
        out.push_back(c);
      } else if (!escape(out)) {
        return false;
      }
    }
    return refuse("not JSON: a string is not closed");
  }

  bool escape(std::string& out) {
    constexpr std::string_view letters = "\"\\/bfnrt", meaning = "\"\\/\b\f\n\r\t";
    const char c = peek();
    ++at_;
    if (const size_t which = letters.find(c); which != std::string_view::npos) {
      out.push_back(meaning[which]);
      return true;
    }
    uint32_t unit = 0;
    if (c != 'u' || !four_digits(unit)) return refuse(message("not JSON: a wrong escape before byte ", at_));
    char32_t code = unit;
    if (unit >= 0xD800 && unit <= 0xDFFF) code = surrogate(unit);
    append_utf8(out, code);
    return true;
  }

  bool four_digits(uint32_t& unit) {
    if (line_.size() < at_ + 4) return false;
    for (int i = 0; i < 4; ++i) {
      const int digit = hex_digit(line_[at_++]);
      if (digit < 0) return false;
      unit = unit * 16 + static_cast<uint32_t>(digit);
    }
    return true;
  }

  /// The code point of a pair; of a half alone U+FFFD, as of every ill-formed sequence.
  char32_t surrogate(uint32_t high) {
    const size_t before = at_;
    uint32_t low = 0;
    if (high <= 0xDBFF && line_.substr(at_).starts_with("\\u")) {
      at_ += 2;
      if (four_digits(low) && low >= 0xDC00 && low <= 0xDFFF) return 0x10000 + ((high - 0xD800) << 10) + (low - 0xDC00);
    }
    at_ = before;
    return replacement_character;
  }

  bool skip_value(int level) {
    if (level > kMostLevels) return refuse(message("more than ", kMostLevels, " levels"));
    std::string ignored;
    if (peek() == '"') return string(ignored);
    if (peek() == '[' || peek() == '{') return skip_container(level, peek() == '{');
    if (peek() == '-' || is_digit(peek())) return skip_number();
    for (const std::string_view word : {"true", "false", "null"}) {
      if (!line_.substr(at_).starts_with(word)) continue;
      at_ += word.size();
      return true;
    }
    return refuse_here("a value");
  }

  bool skip_container(int level, bool is_object) {
    const char end = is_object ? '}' : ']';
    ++at_;
    for (bool first = true; !accept(end); first = false) {
      std::string key;
      if (!first && !expect(',', is_object ? "a comma or }" : "a comma or ]")) return false;
      skip_blanks();
      if (is_object && (!string(key) || !expect(':', "a colon after the key"))) return false;
      if (!skip_value(level + 1)) return false;
    }
    return true;
  }

  bool skip_number() {
    const auto digits = [this] {
      const size_t begin = at_;
      while (is_digit(peek())) ++at_;
      return at_ > begin;
    };
    if (peek() == '-') ++at_;
    const bool zero = peek() == '0';
    const size_t begin = at_;
    if (!digits() || (zero && at_ > begin + 1)) return refuse_here("a number");
    if (peek() == '.' && (++at_, !digits())) return refuse_here("a digit");
    if (peek() != 'e' && peek() != 'E') return true;
    ++at_;
    if (peek() == '+' || peek() == '-') ++at_;
    return digits() || refuse_here("a digit");
  }

  std::string_view line_;
  size_t at_ = 0;
  std::string fault_;
};

std::optional<RecordFault> parse_line(std::string_view line, size_t number, Record& record) {
  if (line.size() > max_text_line) {
    return RecordFault{
        number, "E-DATA-LINE",
        message("the line has ", line.size(), " bytes, at most ", max_text_line, " are read; is a line end missing?")};
  }
  if (line.find_first_not_of(" \t\r") == std::string_view::npos)
    return RecordFault{number, "E-DATA-JSON", "a blank line, expected a JSON object"};
  LineParser parser(line);
  if (!parser.object(record)) return RecordFault{number, "E-DATA-JSON", parser.fault()};
  record.line = number;
  return std::nullopt;
}

}  // namespace

Records parse_jsonl(std::string_view bytes) {
  Records out;
  for (const std::string_view line : split_lines(skip_bom(bytes))) {
    Record record;
    if ((out.fault = parse_line(line, out.rows.size() + 1, record))) return out;
    out.rows.push_back(std::move(record));
  }
  return out;
}

}  // namespace mixtape::data
