// The parser of safetensors headers. It reads bytes of strangers: every number is checked before it is used.
#include <algorithm>
#include <charconv>
#include <functional>
#include <limits>
#include <utility>

#include "core/error.h"
#include "data/safetensors.h"
#include "data/unicode.h"

namespace mixtape::data {
namespace {
constexpr uint64_t largest = static_cast<uint64_t>(std::numeric_limits<int64_t>::max());
constexpr uint64_t length_bytes = 8;

/// A cursor over the one JSON shape that a header may have. Nothing nests deeper than an array in an object in an
/// object, so there is no recursion. The first error stays; after it every step fails.
class HeaderReader {
 public:
  explicit HeaderReader(std::string_view json) : json_(json) {}

  bool object(const std::function<bool(const std::string& key)>& member, size_t most_members);
  bool string(std::string& out, size_t most_bytes);
  bool integer(uint64_t& out);
  bool integers(std::vector<uint64_t>& out, size_t most);
  bool padding();
  bool refuse(const std::string& why) {
    if (error_.empty()) error_ = message("header byte ", at_, ": ", why);
    return false;
  }
  const std::string& error() const { return error_; }

 private:
  char peek() const { return at_ < json_.size() ? json_[at_] : '\0'; }
  bool accept_here(char wanted) { return peek() == wanted && at_ < json_.size() && ++at_ > 0; }
  bool accept(char wanted);
  bool expect(char wanted);
  bool escape(std::string& out);
  bool hex4(char32_t& out);

  std::string_view json_;
  size_t at_ = 0;
  std::string error_;
};

bool HeaderReader::accept(char wanted) {
  while (peek() == ' ' || peek() == '\t' || peek() == '\n' || peek() == '\r') ++at_;
  return accept_here(wanted);
}

bool HeaderReader::expect(char wanted) {
  if (accept(wanted)) return true;
  if (at_ == json_.size()) return refuse(message("the header ends where '", wanted, "' is expected"));
  return refuse(message("expected '", wanted, "', found ", quoted(json_.substr(at_, 1))));
}

bool HeaderReader::object(const std::function<bool(const std::string& key)>& member, size_t most_members) {
  if (!expect('{')) return false;
  if (accept('}')) return true;
  std::string key;
  for (size_t count = 1;; ++count) {
    if (count > most_members) return refuse(message("more than ", most_members, " entries"));
    if (!string(key, weight_limit::name_bytes) || !expect(':') || !member(key)) return false;
    if (accept('}')) return true;
    if (!expect(',')) return false;
  }
}

bool HeaderReader::string(std::string& out, size_t most_bytes) {
  if (!expect('"')) return false;
  out.clear();
  while (at_ < json_.size()) {
    const size_t begin = at_;
    const size_t room = most_bytes - std::min(most_bytes, out.size());
    const size_t most = std::min(json_.size(), begin + room + 1);  // one byte too many is enough to know
    while (at_ < most && json_[at_] != '"' && json_[at_] != '\\' && static_cast<unsigned char>(json_[at_]) >= 0x20)
      ++at_;
    out.append(json_.substr(begin, at_ - begin));
    if (out.size() > most_bytes) return refuse(message("a string of more than ", most_bytes, " bytes"));
    if (accept_here('"')) return true;
    if (accept_here('\\')) {
      if (!escape(out)) return false;
    } else if (at_ < json_.size()) {
      return refuse("a control character inside a string");
    }
  }
  return refuse("a string without an end");
}

bool HeaderReader::escape(std::string& out) {
  constexpr std::string_view letters = "\"\\/bfnrt", meanings = "\"\\/\b\f\n\r\t";
  const char c = peek();
  ++at_;
  if (const size_t which = letters.find(c); which != std::string_view::npos) {
    out.push_back(meanings[which]);
    return true;
  }
  if (c != 'u') return refuse("an unknown escape in a string");
  char32_t code = 0;
  if (!hex4(code)) return false;
  if (code >= 0xD800 && code < 0xDC00) {
    char32_t low = 0;
    if (json_.substr(std::min(at_, json_.size()), 2) != "\\u") return refuse("a lone surrogate in a string");
    at_ += 2;
    if (!hex4(low)) return false;
    if (low < 0xDC00 || low > 0xDFFF) return refuse("a lone surrogate in a string");
    code = 0x10000 + ((code - 0xD800) << 10) + (low - 0xDC00);
  } else if (code >= 0xDC00 && code < 0xE000) {
    return refuse("a lone surrogate in a string");
  }
  append_utf8(out, code);
  return true;
}

bool HeaderReader::hex4(char32_t& out) {
  uint32_t code = 0;
  const std::string_view digits = json_.substr(std::min(at_, json_.size()), 4);
  const std::from_chars_result read = std::from_chars(digits.data(), digits.data() + digits.size(), code, 16);
  if (digits.size() < 4 || read.ptr != digits.data() + 4) return refuse("\\u needs four hexadecimal digits");
  at_ += 4;
  out = code;
  return true;
}

bool HeaderReader::integer(uint64_t& out) {
  while (peek() == ' ' || peek() == '\t' || peek() == '\n' || peek() == '\r') ++at_;
  const char* const begin = json_.data() + at_;
  const char* const end = json_.data() + json_.size();
  const std::from_chars_result read = std::from_chars(begin, end, out);
  if (read.ec == std::errc::result_out_of_range || (read.ec == std::errc() && out > largest)) {
    return refuse("an integer above 2^63 - 1");
  }
  if (read.ec != std::errc()) return refuse("expected a non-negative integer");
  if (*begin == '0' && read.ptr - begin > 1) return refuse("an integer with leading zeros");
  if (read.ptr != end && (*read.ptr == '.' || *read.ptr == 'e' || *read.ptr == 'E')) {
    return refuse("expected an integer, found a number with a fraction or an exponent");
  }
  at_ += static_cast<size_t>(read.ptr - begin);
  return true;
}

bool HeaderReader::integers(std::vector<uint64_t>& out, size_t most) {
  out.clear();
  if (!expect('[')) return false;
  if (accept(']')) return true;
  while (true) {
    if (out.size() == most) return refuse(message("more than ", most, " numbers in a list"));
    if (!integer(out.emplace_back())) return false;
    if (accept(']')) return true;
    if (!expect(',')) return false;
  }
}

bool HeaderReader::padding() {
  at_ = std::min(json_.find_first_not_of(' ', at_), json_.size());
  return at_ == json_.size() || refuse("only spaces may stand behind the header's object");
}

/// Our dtype of a name in the file; nothing for those that mixtape has no type for, and for names that the format has
/// not.
std::optional<DType> dtype_of_name(std::string_view name) {
  for (int i = 0; i < dtype_count; ++i) {
    const DType dtype = static_cast<DType>(i);
    std::string upper(name_of(dtype));
    for (char& c : upper) c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
    if (name == upper) return dtype;
  }
  return std::nullopt;
}

/// One tensor's object. Offsets stay relative to the data here.
bool read_entry(HeaderReader& reader, TensorEntry& entry) {
  std::string dtype_name;
  std::vector<uint64_t> shape, offsets;
  bool has_dtype = false, has_shape = false, has_offsets = false;
  const auto once = [&](bool& has) { return has ? reader.refuse("the same field twice") : (has = true); };
  const auto field = [&](const std::string& key) {
    if (key == "dtype") return once(has_dtype) && reader.string(dtype_name, weight_limit::name_bytes);
    if (key == "shape") return once(has_shape) && reader.integers(shape, max_rank);
    if (key == "data_offsets") return once(has_offsets) && reader.integers(offsets, 2);
    return reader.refuse(message("unknown field ", quoted(key), "; expected dtype, shape and data_offsets"));
  };
  const auto refuse = [&](const std::string& why) {
    return reader.refuse(message("tensor ", quoted(entry.name), ": ", why));
  };
  if (!reader.object(field, 4)) return false;
  if (!has_dtype || !has_shape || !has_offsets) return refuse("needs dtype, shape and data_offsets");
  if (offsets.size() != 2) return refuse("data_offsets needs exactly two numbers");
  const std::optional<DType> dtype = dtype_of_name(dtype_name);
  if (!dtype) return refuse(message("dtype ", quoted(dtype_name), " is not one of F32 F16 BF16 F64 I64 I32 U8 BOOL"));
  const std::optional<uint64_t> bytes = byte_count(shape, *dtype);
  if (!bytes) return refuse("the shape's product does not fit into 63 bits");
  if (offsets[1] < offsets[0]) return refuse("data_offsets end before they begin");
  if (offsets[1] - offsets[0] != *bytes) {
    return refuse(message("data_offsets span ", offsets[1] - offsets[0], " bytes, dtype and shape need ", *bytes));
  }
  entry.dtype = *dtype;
  for (const uint64_t dim : shape) entry.shape.push_back(static_cast<int64_t>(dim));
  entry.offset = offsets[0];
  entry.bytes = *bytes;
  return true;
}

bool read_metadata(HeaderReader& reader, Metadata& metadata) {
  const auto pair = [&](const std::string& key) {
    const auto [entry, fresh] = metadata.try_emplace(key);
    if (!fresh) return reader.refuse(message("the key ", quoted(key), " twice in __metadata__"));
    return reader.string(entry->second, weight_limit::header_bytes);
  };
  return reader.object(pair, weight_limit::tensors);
}

bool read_header(HeaderReader& reader, SafeTensorsHeader& header) {
  bool has_metadata = false;
  const auto member = [&](const std::string& key) {
    if (key == "__metadata__") {
      if (has_metadata) return reader.refuse("__metadata__ twice");
      has_metadata = true;
      return read_metadata(reader, header.metadata);
    }
    if (key.find('\0') != std::string::npos) return reader.refuse("a tensor name with a NUL");
    header.tensors.emplace_back().name = key;
    return read_entry(reader, header.tensors.back());
  };
  return reader.object(member, weight_limit::tensors) && reader.padding();
}

/// Sorts by place and checks that the tensors cover the data exactly; why not, or an empty text.
std::string check_cover(std::vector<TensorEntry>& tensors, uint64_t data_bytes) {
  std::sort(tensors.begin(), tensors.end(), [](const TensorEntry& a, const TensorEntry& b) {
    return std::pair(a.offset, a.bytes) < std::pair(b.offset, b.bytes);
  });
  uint64_t end = 0;
  for (const TensorEntry& entry : tensors) {
    if (entry.offset != end) {
      return message("tensor ", quoted(entry.name), " begins at byte ", entry.offset, " of the data, ",
                     entry.offset < end ? "inside another tensor" : "behind a hole", " (the one before ends at ", end,
                     ")");
    }
    if (entry.bytes > data_bytes - end) {
      return message("tensor ", quoted(entry.name), " ends behind the file: it needs ", entry.bytes,
                     " bytes from byte ", end, " of the data, which has ", data_bytes, "; the file is cut off");
    }
    end += entry.bytes;
  }
  if (end != data_bytes) return message(data_bytes - end, " bytes behind the last tensor belong to none");
  return {};
}
}  // namespace

Parsed<uint64_t> parse_header_length(std::span<const std::byte> file_start, uint64_t file_size) {
  const std::string guess = guess_format(file_start);
  if (file_size < length_bytes || file_start.size() < length_bytes) {
    return {{}, message("has ", file_size, " bytes, a safetensors file begins with an 8-byte length", guess)};
  }
  uint64_t length = 0;
  for (size_t i = 0; i < length_bytes; ++i) length |= std::to_integer<uint64_t>(file_start[i]) << (8 * i);
  if (length > weight_limit::header_bytes) {
    return {{},
            message("says that its header is longer than the ", weight_limit::header_bytes, " bytes allowed", guess)};
  }
  if (length > file_size - length_bytes) {
    return {
        {},
        message("says that its header has ", length, " bytes, but only ", file_size - length_bytes, " follow", guess)};
  }
  return {length, {}};
}

Parsed<SafeTensorsHeader> parse_safetensors(std::span<const std::byte> file_start, uint64_t file_size) {
  const Parsed<uint64_t> length = parse_header_length(file_start, file_size);
  if (!length.value) return {{}, length.error};
  if (file_start.size() - length_bytes < *length.value) return {{}, "is cut off inside its header"};
  const std::string_view json(reinterpret_cast<const char*>(file_start.data()) + length_bytes, *length.value);
  if (!json.starts_with('{')) return {{}, "its header does not begin with '{'"};
  if (!is_valid_utf8(json)) return {{}, message("header byte ", first_invalid_utf8(json), ": not UTF-8")};

  SafeTensorsHeader header;
  HeaderReader reader(json);
  if (!read_header(reader, header)) return {{}, reader.error()};
  // Names before places: a tensor that comes twice would also lie inside another one.
  const auto by_name = [](const TensorEntry& x, const TensorEntry& y) { return x.name < y.name; };
  std::sort(header.tensors.begin(), header.tensors.end(), by_name);
  const auto twin = std::adjacent_find(header.tensors.begin(), header.tensors.end(),
                                       [](const TensorEntry& x, const TensorEntry& y) { return x.name == y.name; });
  if (twin != header.tensors.end()) return {{}, message("tensor ", quoted(twin->name), " stands twice in the header")};
  if (std::string error = check_cover(header.tensors, file_size - length_bytes - *length.value); !error.empty()) {
    return {{}, std::move(error)};
  }
  for (TensorEntry& entry : header.tensors) entry.offset += length_bytes + *length.value;
  std::sort(header.tensors.begin(), header.tensors.end(), by_name);
  return {std::move(header), {}};
}

}  // namespace mixtape::data
