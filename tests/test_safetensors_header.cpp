// The parser of safetensors headers: what it accepts, and files made wrong by hand and by chance.
#include <doctest/doctest.h>

#include <ctime>
#include <random>
#include <string>
#include <vector>

#include "core/factory.h"
#include "data/safetensors.h"
#include "tests/safetensors_bytes.h"
#include "tests/shared.h"

namespace mixtape::data {
namespace {
using tests::contains;
using tests::entry;
using tests::number;
using tests::parse;
using tests::written;
using namespace std::string_literals;

/// A file with this header and so many bytes of data.
std::string file_of(const std::string& header, size_t data_bytes) {
  return number(header.size()) + header + std::string(data_bytes, '\0');
}

struct Case {
  std::string file, words;
};

/// `count` entries of one kind, made by `one(i)`, with commas between.
template <class F>
std::string repeat(int count, F one) {
  std::string out;
  for (int i = 0; i < count; ++i) out += (i > 0 ? "," : "") + one(std::to_string(i));
  return out;
}

const std::string good_entry = entry("a", "F32", "2", "0,8");
const std::string two_to_32 = "4294967296", largest = "9223372036854775807";
const std::string many = "{" + repeat(65537, [](const std::string& i) { return entry("t" + i, "U8", "0", "0,0"); });
const std::string many_notes =
    "{\"__metadata__\":{" + repeat(65537, [](const std::string& i) { return "\"" + i + "\":\"\""; });

/// Each line is a file, and words of the reason for which it must be refused.
const std::vector<Case> malicious_files = {
    {"", "has 0 bytes"},
    {"1234567", "has 7 bytes"},
    {number(0), "does not begin with '{'"},
    {number(~uint64_t{0}) + "{}", "longer than the 100000000 bytes"},
    {number(~uint64_t{0} - 7) + "{}", "longer than the 100000000 bytes"},
    {number(100'000'001) + "{}", "longer than the 100000000 bytes"},
    {number(3) + "{}", "only 2 follow"},
    {number(1) + "{", "ends where '\"' is expected"},
    {number(2) + "[]", "does not begin with '{'"},
    {number(3) + " {}", "does not begin with '{'"},
    {number(3) + "{}\n", "only spaces"},
    {number(3) + "{}\0"s, "only spaces"},
    {number(4) + "{}{}", "only spaces"},
    {number(3) + "{,}", "expected '\"'"},
    {"PK\x03\x04" + std::string(40, '\0'), "looks like a zip"},
    {"\x80\x02}q\0X.........."s, "looks like a pickle"},
    {"<!DOCTYPE html><html>", "looks like a web page"},
    {"version https://git-lfs.github.com/spec/v1", "git-lfs pointer"},
    {file_of("{" + good_entry + ",}", 8), "expected '\"'"},
    {file_of("{" + good_entry + " " + good_entry + "}", 8), "expected ','"},
    {file_of("{" + good_entry + "," + good_entry + "}", 8), "stands twice"},
    {file_of("{" + entry("a", "U8", "0", "0,0") + "," + entry("a", "U8", "0", "0,0") + "}", 0), "stands twice"},
    {file_of("{" + good_entry + "," + entry("b", "F32", "2", "0,8") + "}", 8), "inside another tensor"},
    {file_of("{" + good_entry + "," + entry("b", "F32", "2", "4,12") + "}", 12), "inside another tensor"},
    {file_of("{" + good_entry + "," + entry("b", "F32", "1", "12,16") + "}", 16), "behind a hole"},
    {file_of("{" + entry("a", "F32", "1", "4,8") + "}", 8), "behind a hole"},
    {file_of("{" + good_entry + "}", 9), "1 bytes behind the last tensor"},
    {file_of("{}", 1), "1 bytes behind the last tensor"},
    {file_of("{" + good_entry + "}", 7), "ends behind the file"},
    {file_of("{" + entry("a", "F32", "2", "8,0") + "}", 8), "end before they begin"},
    {file_of("{" + entry("a", "F32", "2", "0,9") + "}", 9), "span 9 bytes, dtype and shape need 8"},
    {file_of("{" + entry("a", "F32", "3", "0,8") + "}", 8), "span 8 bytes, dtype and shape need 12"},
    {file_of("{" + entry("a", "F32", two_to_32 + "," + two_to_32, "0,0") + "}", 0), "does not fit into 63 bits"},
    {file_of("{" + entry("a", "F32", "0," + largest + ",3", "0,0") + "}", 0), "does not fit into 63 bits"},
    {file_of("{" + entry("a", "F32", largest, "0,8") + "}", 8), "does not fit into 63 bits"},
    {file_of("{" + entry("a", "U8", largest, "0," + largest) + "}", 8), "ends behind the file"},
    {file_of("{" + entry("a", "U8", "9223372036854775808", "0,8") + "}", 8), "above 2^63 - 1"},
    {file_of("{" + entry("a", "U8", "18446744073709551617", "0,8") + "}", 8), "above 2^63 - 1"},
    {file_of("{" + entry("a", "F32", "-2", "0,8") + "}", 8), "non-negative integer"},
    {file_of("{" + entry("a", "F32", "2", "-8,0") + "}", 8), "non-negative integer"},
    {file_of("{" + entry("a", "F32", "2.0", "0,8") + "}", 8), "fraction or an exponent"},
    {file_of("{" + entry("a", "F32", "2", "0,8e0") + "}", 8), "fraction or an exponent"},
    {file_of("{" + entry("a", "F32", "2", "0,08") + "}", 8), "leading zeros"},
    {file_of("{" + entry("a", "F32", "2", "0,\"8\"") + "}", 8), "non-negative integer"},
    {file_of("{" + entry("a", "F32", "2", "8") + "}", 8), "exactly two"},
    {file_of("{" + entry("a", "F32", "2", "0,8,8") + "}", 8), "more than 2 numbers"},
    {file_of("{" + entry("a", "F32", "1,1,1,1,1,1,1,1,2", "0,8") + "}", 8), "more than 8 numbers"},
    {file_of("{" + entry("a", "F32", "2,", "0,8") + "}", 8), "non-negative integer"},
    {file_of("{" + entry("a", "f32", "2", "0,8") + "}", 8), "dtype \"f32\" is not one of"},
    {file_of("{" + entry("a", "F8_E4M3", "8", "0,8") + "}", 8), "dtype \"F8_E4M3\" is not one of"},
    {file_of("{" + entry("a", "BOOLEAN", "8", "0,8") + "}", 8), "is not one of"},
    {file_of("{\"a\":{\"dtype\":\"F32\",\"shape\":[2]}}", 8), "needs dtype, shape and data_offsets"},
    {file_of("{\"a\":{\"dtype\":\"F32\",\"data_offsets\":[0,8]}}", 8), "needs dtype, shape and data_offsets"},
    {file_of("{\"a\":{\"shape\":[2],\"data_offsets\":[0,8]}}", 8), "needs dtype, shape and data_offsets"},
    {file_of("{\"a\":{}}", 0), "needs dtype, shape and data_offsets"},
    {file_of("{\"a\":{\"dtype\":\"F32\",\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", 8),
     "the same field twice"},
    {file_of("{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8],\"x\":1}}", 8), "unknown field \"x\""},
    {file_of("{\"a\":[]}", 0), "expected '{'"},
    {file_of("{\"a\":null}", 0), "expected '{'"},
    {file_of("{\"a\":{\"dtype\":1,\"shape\":[2],\"data_offsets\":[0,8]}}", 8), "expected '\"'"},
    {file_of("{\"__metadata__\":{\"a\":1}}", 0), "expected '\"'"},
    {file_of("{\"__metadata__\":{\"a\":\"\",\"a\":\"\"}}", 0), "twice in __metadata__"},
    {file_of("{\"__metadata__\":{},\"__metadata__\":{}}", 0), "__metadata__ twice"},
    {file_of("{\"__metadata__\":[]}", 0), "expected '{'"},
    {file_of("{" + entry("a\\u0000b", "F32", "2", "0,8") + "}", 8), "a tensor name with a NUL"},
    {file_of("{" + entry(std::string(513, 'n'), "F32", "2", "0,8") + "}", 8), "more than 512 bytes"},
    {file_of("{\xFF\"a\":1}", 0), "header byte 1: not UTF-8"},
    {file_of(many + "}", 0), "more than 65536 entries"},
    {file_of(many_notes + "}}", 0), "more than 65536 entries"},
    {file_of(std::string(100'000, '{'), 0), "expected '\"'"},
    {file_of("{\"a\":" + std::string(100'000, '['), 0), "expected '{'"},
    {file_of("{\"a\":{\"shape\":" + std::string(100'000, '['), 0), "non-negative integer"},
};

}  // namespace

TEST_CASE("a header says where each tensor lies") {
  const std::string header = "{" + entry("z", "BF16", "2,3", "8,20") + ", " + entry("a", "I64", "", "0,8") + "," +
                             entry("none", "F32", "4,0", "20,20") +
                             ",\"__metadata__\":{\"format\":\"pt\",\"k\":\"\"}}   ";
  const auto parsed = parse(file_of(header, 20));
  REQUIRE_MESSAGE(parsed.value, parsed.error);
  const std::vector<TensorEntry>& tensors = parsed.value->tensors;
  REQUIRE(tensors.size() == 3);
  CHECK(tensors[0].name == "a");
  CHECK(tensors[0].dtype == DType::i64);
  CHECK(tensors[0].shape == Shape{});
  CHECK(tensors[0].offset == 8 + header.size());
  CHECK(tensors[0].bytes == 8);
  CHECK(tensors[1].name == "none");
  CHECK(tensors[1].shape == Shape{4, 0});
  CHECK(tensors[1].bytes == 0);
  CHECK(tensors[2].dtype == DType::bf16);
  CHECK(tensors[2].shape == Shape{2, 3});
  CHECK(tensors[2].offset == 8 + header.size() + 8);
  CHECK(parsed.value->metadata == Metadata{{"format", "pt"}, {"k", ""}});
}

TEST_CASE("names are JSON strings") {
  const auto name_of_key = [](const std::string& key) {
    const auto parsed = parse(file_of("{" + entry(key, "U8", "1", "0,1") + "}", 1));
    return parsed.value ? parsed.value->tensors[0].name : "refused";
  };
  CHECK(name_of_key("a.b/c") == "a.b/c");
  CHECK(name_of_key("\\\"\\\\\\/\\b\\f\\n\\r\\t") == "\"\\/\b\f\n\r\t");
  CHECK(name_of_key("\\u00e9\\u20AC\\ud83c\\udf37") == "\u00E9\u20AC\U0001F337");
  CHECK(name_of_key("\u00E9") == "\u00E9");
  CHECK(name_of_key("") == "");
  CHECK(name_of_key(std::string(512, 'n')) == std::string(512, 'n'));
  for (const std::string& bad :
       {std::string(513, 'n'), "\\u0000"s, "a\0b"s, "\\x41"s, "\\u00g0"s, "\\u+123"s, "\\u12"s, "\\ud83c"s, "\\ud83cx"s,
        "\\ud83c\\u0041"s, "\\udf37"s, "a\nb"s, "\xFF"s, "\xED\xA0\xBC"s, "\\"s}) {
    CAPTURE(bad);
    CHECK(name_of_key(bad) == "refused");
  }
}

TEST_CASE("malicious headers are refused, each for its reason") {
  CHECK(malicious_files.size() >= 40);
  for (const Case& c : malicious_files) {
    CAPTURE(c.words);
    CAPTURE(c.file.substr(0, 200));
    const auto parsed = parse(c.file);
    CHECK(!parsed.value);
    CAPTURE(parsed.error);
    CHECK(contains(parsed.error, c.words));
  }
}

#if !defined(__SANITIZE_THREAD__)  // which is three times as slow
TEST_CASE("a header of 100 MB is refused or read in less than two seconds") {
  const size_t most = weight_limit::header_bytes;
  const auto seconds = [](const std::string& header) {
    const std::string file = number(header.size()) + header;
    const std::clock_t start = std::clock();  // of this process: the machine may be busy with others
    (void)parse(file);
    return static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  };
  CHECK(seconds(std::string(most, '{')) < 2);
  CHECK(seconds("{\"__metadata__\":{\"k\":\"" + std::string(most - 25, 'v') + "\"}}") < 2);
}
#endif

TEST_CASE("random changes never crash the parser, and what it accepts lies inside the file") {
  const std::string file =
      written({{"weight", full({3, 4}, 1.5)}, {"b", full({7}, 2, DType::u8)}, {"empty", zeros({0})}});
  std::mt19937_64 random(7);
  const std::string alphabet = "{}[]\",:0123456789-.eE\\u \xFF\0aF"s;
  size_t accepted = 0;
  for (int i = 0; i < 20000; ++i) {
    std::string changed = file;
    for (uint64_t changes = 1 + random() % 3; changes > 0; --changes) {
      const size_t at =
          random() % (changed.size() - 43);  // the length and the header: the data are 55 bytes, any are legal
      const char c = alphabet[random() % alphabet.size()];
      switch (random() % 3) {
        case 0: changed[at] = c; break;
        case 1: changed.insert(at, 1, c); break;
        default: changed.erase(at, 1 + random() % 4);
      }
    }
    const auto parsed = parse(changed);
    CHECK_MESSAGE(parsed.value.has_value() == parsed.error.empty(), i);
    if (!parsed.value) continue;
    ++accepted;
    for (const TensorEntry& tensor : parsed.value->tensors) {
      if (tensor.offset > changed.size() || tensor.bytes > changed.size() - tensor.offset)
        FAIL("outside the file: ", i);
    }
  }
  CHECK(accepted < 2000);
}

}  // namespace mixtape::data
