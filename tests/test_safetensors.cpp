// Safetensors: the golden files, files made wrong by hand, cut and mutated files, and what the writer writes.
#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <random>
#include <string>
#include <vector>

#include "core/factory.h"
#include "data/safetensors.h"
#include "tests/shared.h"

namespace mixtape::data {
namespace {
using tests::contains;
using tests::error_of;
using tests::TempFolder;
using namespace std::string_literals;

std::span<const std::byte> as_bytes(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

Parsed<SafeTensorsHeader> parse(std::string_view file) { return parse_safetensors(as_bytes(file), file.size()); }

std::string number(uint64_t value) {
  std::string out(8, '\0');
  std::memcpy(out.data(), &value, 8);
  return out;
}

/// A file with this header and so many bytes of data.
std::string file_of(const std::string& header, size_t data_bytes) {
  return number(header.size()) + header + std::string(data_bytes, '\0');
}

/// A tensor's entry of the header.
std::string entry(const std::string& name, const std::string& dtype, const std::string& shape,
                  const std::string& offsets) {
  return "\"" + name + "\":{\"dtype\":\"" + dtype + "\",\"shape\":[" + shape + "],\"data_offsets\":[" + offsets + "]}";
}

std::string written(const std::vector<NamedTensor>& tensors, const Metadata& metadata = default_metadata()) {
  std::string file;
  write_safetensors(
      [&file](std::span<const std::byte> bytes) {
        file.append(reinterpret_cast<const char*>(bytes.data()), bytes.size());
      },
      tensors, metadata);
  return file;
}
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
  struct Case {
    std::string file, words;
  };
  const std::string good = entry("a", "F32", "2", "0,8");
  const std::string two_to_32 = "4294967296", largest = "9223372036854775807";
  std::string many = "{";
  for (int i = 0; i < 65537; ++i) many += (i ? "," : "") + entry("t" + std::to_string(i), "U8", "0", "0,0");
  std::string many_notes = "{\"__metadata__\":{";
  for (int i = 0; i < 65537; ++i) many_notes += (i ? ",\"" : "\"") + std::to_string(i) + "\":\"\"";
  const std::vector<Case> cases = {
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
      {file_of("{" + good + ",}", 8), "expected '\"'"},
      {file_of("{" + good + " " + good + "}", 8), "expected ','"},
      {file_of("{" + good + "," + good + "}", 8), "inside another tensor"},
      {file_of("{" + entry("a", "U8", "0", "0,0") + "," + entry("a", "U8", "0", "0,0") + "}", 0), "stands twice"},
      {file_of("{" + good + "," + entry("b", "F32", "2", "0,8") + "}", 8), "inside another tensor"},
      {file_of("{" + good + "," + entry("b", "F32", "2", "4,12") + "}", 12), "inside another tensor"},
      {file_of("{" + good + "," + entry("b", "F32", "1", "12,16") + "}", 16), "behind a hole"},
      {file_of("{" + entry("a", "F32", "1", "4,8") + "}", 8), "behind a hole"},
      {file_of("{" + good + "}", 9), "1 bytes behind the last tensor"},
      {file_of("{}", 1), "1 bytes behind the last tensor"},
      {file_of("{" + good + "}", 7), "ends behind the file"},
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
  CHECK(cases.size() >= 40);
  for (const Case& c : cases) {
    CAPTURE(c.words);
    CAPTURE(c.file.substr(0, 200));
    const auto parsed = parse(c.file);
    CHECK(!parsed.value);
    CAPTURE(parsed.error);
    CHECK(contains(parsed.error, c.words));
  }
}

TEST_CASE("a header of 100 MB is refused or read in less than two seconds") {
  const size_t most = safetensors_limit::header_bytes;
  const auto seconds = [](const std::string& header) {
    const std::string file = number(header.size()) + header;
    const std::clock_t start = std::clock();  // of this process: the machine may be busy with others
    (void)parse(file);
    return static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  };
  CHECK(seconds(std::string(most, '{')) < 2);
  CHECK(seconds("{\"__metadata__\":{\"k\":\"" + std::string(most - 25, 'v') + "\"}}") < 2);
}

TEST_CASE("a file cut anywhere is refused") {
  const std::string file = written({{"a", full({100, 10}, 1.5)}, {"b", full({7}, 2, DType::i64)}});
  REQUIRE(parse(file).value);
  size_t accepted = 0;
  for (size_t size = 0; size < file.size(); ++size)
    accepted += parse(std::string_view(file).substr(0, size)).value.has_value();
  CHECK(accepted == 0);
  CHECK(parse_safetensors(as_bytes(file).first(20), file.size()).error == "is cut off inside its header");

  const TempFolder folder;
  for (const size_t size : {0, 7, 8, 20, 300, 4000}) {
    const std::string path = folder.write("cut.safetensors", std::string_view(file).substr(0, size));
    const auto error = error_of([&] { (void)SafeTensorsFile::open(path); });
    REQUIRE(error);
    CHECK(error->exit_code() == 4);
    CHECK(error->code() == "E-FILE-SAFETENSORS");
    CHECK(contains(error->what(), path));
  }
}

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

TEST_CASE("what is written is read again, in every dtype and layout") {
  const TempFolder folder;
  const std::string path = folder.path("x.safetensors");
  const double inf = std::numeric_limits<double>::infinity();
  std::vector<NamedTensor> tensors;
  for (int i = 0; i < dtype_count; ++i) {
    const DType dtype = static_cast<DType>(i);
    tensors.push_back({"t." + std::string(name_of(dtype)), from({0, 1, 1, 0, 1, 1}, {3, 2}, dtype)});
  }
  const Tensor base = from({1, 2, 3, 4, 5, 6}, {2, 3});
  tensors.push_back({"transposed", Tensor(base.storage(), {{3, 2}, {1, 3}, 0, DType::f32})});
  tensors.push_back({"slice", Tensor(base.storage(), {{2}, {3}, 1, DType::f32})});
  tensors.push_back({"scalar \"\\\n\u00E9", scalar(-2.5)});
  tensors.push_back({"empty", zeros({2, 0, 3}, DType::f16)});
  tensors.push_back({"special", from({inf, -inf, -0.0}, {3}, DType::bf16)});
  write_safetensors(path, tensors, {{"format", "pt"}, {"note", "a \"quote\" and \x01"}});

  const SafeTensorsFile file = SafeTensorsFile::open(path);
  CHECK(file.path() == path);
  CHECK(file.metadata() == Metadata{{"format", "pt"}, {"note", "a \"quote\" and \x01"}});
  REQUIRE(file.tensors().size() == tensors.size());
  for (const auto& [name, tensor] : tensors) {
    CAPTURE(name);
    const TensorEntry* found = file.find(name);
    REQUIRE(found);
    const Tensor read = file.read(*found);
    CHECK(read.dtype() == tensor.dtype());
    CHECK(read.shape() == tensor.shape());
    CHECK(to_vector(read) == to_vector(tensor));
    if (found->bytes > 0) CHECK(found->offset % static_cast<uint64_t>(size_of(found->dtype)) == 0);
  }
  CHECK(std::signbit(to_vector(file.read(*file.find("special")))[2]));
  CHECK(file.find("t.") == nullptr);
  CHECK(file.find("zzz") == nullptr);
}

TEST_CASE("a file is the same bytes for the same tensors, whatever their order") {
  const Tensor a = full({2}, 1), b = full({3}, 2, DType::bf16), c = full({1}, 3);
  const std::string file = written({{"b", b}, {"c", c}, {"a", a}});
  CHECK(file == written({{"a", a}, {"b", b}, {"c", c}}));
  const std::string header =
      "{\"__metadata__\":{\"format\":\"pt\"},\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},"
      "\"c\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[8,12]},"
      "\"b\":{\"dtype\":\"BF16\",\"shape\":[3],\"data_offsets\":[12,18]}}";
  const size_t padded = (header.size() + 7) / 8 * 8;
  CHECK(file.substr(0, 8) == number(padded));
  CHECK(file.substr(8, padded) == header + std::string(padded - header.size(), ' '));
  CHECK(file.size() == 8 + padded + 18);
  CHECK(written({}, {}) == number(8) + "{}      ");
  CHECK(parse(written({})).value->metadata == Metadata{{"format", "pt"}});
}

TEST_CASE("names that no reader would take are not written") {
  const Tensor one = scalar(1);
  struct Case {
    std::string name, words;
  };
  for (const Case& c :
       {Case{"__metadata__", "is reserved"}, Case{"", "is empty"}, Case{std::string(513, 'n'), "longer than 512"},
        Case{"a\0b"s, "holds a NUL"}, Case{"\xFF", "is not UTF-8"}}) {
    const auto error = error_of([&] { (void)written({{c.name, one}}); });
    REQUIRE(error);
    CHECK(error->kind() == ErrorKind::model);
    CHECK(error->code() == "E-FILE-NAME");
    CHECK(contains(error->what(), c.words));
  }
  CHECK(contains(tests::error_text([&] { (void)written({{"a", one}, {"a", one}}); }), "two tensors are named \"a\""));
  const TempFolder folder;
  const std::string path = folder.write("kept.safetensors", "old");
  CHECK(error_of([&] { write_safetensors(path, {{"__metadata__", one}}); }));
  CHECK(tests::slurp(path) == "old");
  CHECK(std::distance(std::filesystem::directory_iterator(folder.path()), {}) == 1);  // no temporary file is left
}

TEST_CASE("errors of files: missing, a directory, no place to write, cut while open") {
  const TempFolder folder;
  const auto missing = error_of([&] { (void)SafeTensorsFile::open(folder.path("none")); });
  REQUIRE(missing);
  CHECK(missing->exit_code() == 4);
  CHECK(missing->code() == "E-FILE-MISSING");
  CHECK(error_of([&] { (void)SafeTensorsFile::open(folder.path()); })->exit_code() == 4);
  const auto nowhere = error_of([&] { write_safetensors(folder.path("no/such/folder/x"), {{"a", scalar(1)}}); });
  REQUIRE(nowhere);
  CHECK(nowhere->exit_code() == 5);
  CHECK(contains(nowhere->what(), folder.path("no/such/folder/x")));

  const std::string path = folder.path("x.safetensors");
  write_safetensors(path, {{"a", full({100}, 1)}});
  const SafeTensorsFile file = SafeTensorsFile::open(path);
  std::filesystem::resize_file(path, std::filesystem::file_size(path) - 1);
  CHECK(contains(tests::error_text([&] { (void)file.read(file.tensors()[0]); }), "E-FILE-TRUNCATED"));
  std::vector<std::byte> small(3);
  CHECK(contains(tests::error_text([&] { file.read(file.tensors()[0], small); }), "E-FILE-TARGET"));

  const std::string header = "{" + entry("a", "BOOL", "2", "0,2") + "}";
  folder.write("bool.safetensors", number(header.size()) + header + "\x01\x02");
  const SafeTensorsFile truth = SafeTensorsFile::open(folder.path("bool.safetensors"));
  const auto bad = error_of([&] { (void)truth.read(truth.tensors()[0]); });
  REQUIRE(bad);
  CHECK(bad->code() == "E-FILE-BOOL");
}

TEST_CASE("the golden files: good ones give their values, bad ones are refused") {
  if (tests::no_shared()) return;
  std::istringstream lines(tests::slurp(tests::shared_path("data/golden/safetensors/manifest.jsonl")));
  size_t good = 0, bad = 0;
  for (std::string line; std::getline(lines, line);) {
    const nlohmann::json row = nlohmann::json::parse(line);
    const std::string name = row["file"], path = tests::shared_path("data/golden/safetensors/" + name);
    CAPTURE(name);
    if (row["expect"] == "reject") {
      ++bad;
      const auto error = error_of([&] { (void)SafeTensorsFile::open(path); });
      REQUIRE(error);
      CHECK(error->exit_code() == 4);
      continue;
    }
    ++good;
    const SafeTensorsFile file = SafeTensorsFile::open(path);
    CHECK(file.tensors().size() == row["tensors"].size());
    for (const auto& [tensor, values] : row["tensors"].items()) {
      const TensorEntry* found = file.find(tensor);
      REQUIRE(found);
      const std::vector<double> got = to_vector(file.read(*found));
      REQUIRE(got.size() == values.size());
      for (size_t i = 0; i < got.size(); ++i) {
        if (values[i] == "nan") {
          CHECK(std::isnan(got[i]));
        } else {
          CHECK(got[i] == (values[i] == "-inf" ? -std::numeric_limits<double>::infinity() : values[i].get<double>()));
        }
      }
    }
  }
  CHECK(good == 10);
  CHECK(bad == 33);
}

TEST_CASE("a real checkpoint survives a round trip") {
  if (tests::no_shared()) return;
  const SafeTensorsFile file =
      SafeTensorsFile::open(tests::shared_path("data/bert/tiny-synthetic/model_bf16.safetensors"));
  CHECK(file.tensors().size() == 39);
  REQUIRE(file.find("embeddings.word_embeddings.weight"));
  CHECK(file.find("embeddings.word_embeddings.weight")->shape == Shape{30522, 16});
  std::vector<NamedTensor> tensors;
  for (const TensorEntry& tensor : file.tensors()) tensors.push_back({tensor.name, file.read(tensor)});
  const TempFolder folder;
  write_safetensors(folder.path("copy"), tensors);
  const SafeTensorsFile copy = SafeTensorsFile::open(folder.path("copy"));
  REQUIRE(copy.tensors().size() == 39);
  for (size_t i = 0; i < tensors.size(); ++i) {
    CHECK(copy.tensors()[i].name == tensors[i].name);
    CHECK(to_vector(copy.read(copy.tensors()[i])) == to_vector(tensors[i].tensor));
  }
}

}  // namespace mixtape::data
