// Safetensors files: the golden ones, cut ones, and what the writer writes. The parser has test_safetensors_header.cpp.
#include <doctest/doctest.h>

#include <cmath>
#include <filesystem>
#include <limits>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "core/factory.h"
#include "data/safetensors.h"
#include "tests/safetensors_bytes.h"
#include "tests/shared.h"

namespace mixtape::data {
namespace {
using tests::as_bytes;
using tests::contains;
using tests::entry;
using tests::error_of;
using tests::number;
using tests::parse;
using tests::TempFolder;
using tests::written;
using namespace std::string_literals;

}  // namespace

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

TEST_CASE("what is written is read again, in every dtype and layout") {
  const TempFolder folder;
  const std::string path = folder.path("x.safetensors");
  const double inf = std::numeric_limits<double>::infinity();
  NamedTensors tensors;
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
  for (const NamedTensor& expected : tensors) {
    CAPTURE(expected.name);
    const TensorEntry* found = file.find(expected.name);
    REQUIRE(found);
    const Tensor read = file.read(*found);
    CHECK(read.dtype() == expected.tensor.dtype());
    CHECK(read.shape() == expected.tensor.shape());
    CHECK(to_vector(read) == to_vector(expected.tensor));
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
  NamedTensors tensors;
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
