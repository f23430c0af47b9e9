// PyTorch checkpoints in both forms: the golden files, and files made right and wrong here.
#include <doctest/doctest.h>
#include <sys/resource.h>

#include <ctime>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <random>
#include <sstream>
#include <string>
#include <vector>

#include "core/factory.h"
#include "data/torch_checkpoint.h"
#include "tests/shared.h"
#include "tests/torch_files.h"

namespace mixtape::data {
namespace {
using namespace tests;
using namespace std::string_literals;

Parsed<TorchCheckpoint> parse_torch(std::string_view file) {
  return TorchCheckpoint::parse(std::as_bytes(std::span(file.data(), file.size())));
}

const std::string four = bytes_of<float>({1, 2, 3, 4});

std::string zip_with(const TorchSpec& spec, const std::string& storage = four) {
  return torch_zip(dict_op({{"w", tensor_op(spec)}}), {{"0", storage}});
}

std::vector<double> values_of(const TorchCheckpoint& file, const std::string& name) {
  const TorchTensor* const tensor = file.find(name);
  return tensor ? to_vector(file.read(*tensor)) : std::vector<double>{-12345};
}

struct TorchCase {
  std::string file, words;
};

TorchSpec spec_of(std::vector<int64_t> shape, std::vector<int64_t> strides, int64_t offset = 0, int64_t elements = 4) {
  TorchSpec spec;
  spec.storage_elements = elements;
  spec.offset = offset;
  spec.shape = std::move(shape);
  spec.strides = std::move(strides);
  return spec;
}

std::string odd_tensor(const std::vector<std::string>& arguments) {
  return torch_zip(dict_op({{"w", call_op(global_op("torch._utils", "_rebuild_tensor_v2"), arguments)}}),
                   {{"0", four}});
}

std::string nested(int depth) {
  std::string object = "N";
  for (int i = 0; i < depth; ++i) object = dict_op({{"a", object}});
  return object;
}

/// Sixty-four levels, each holding the one below twice: 2^64 visits for a walker that does not count.
std::string bushy() {
  std::string object = "]";
  for (int i = 0; i < 60; ++i)
    object +=
        "\x94"
        "0](h" +
        little(static_cast<uint64_t>(i), 1) + "h" + little(static_cast<uint64_t>(i), 1) + "e";
  return object;
}

const int64_t huge = int64_t{1} << 62;
const std::vector<TorchCase> bad_files = {
    {"", "neither a zip nor a pickle"},
    {"<!DOCTYPE html>", "looks like a web page"},
    {"version https://git-lfs.github.com/spec/v1", "git-lfs pointer"},
    {"PK", "no end record"},
    {zip_with({}).substr(0, 200), "no end record"},
    {zip_of({{"archive/version", "3"}}), "without a data.pkl"},
    {zip_of({{"a/data.pkl", pickle_of("}")}, {"b/data.pkl", pickle_of("}")}}), "more than one data.pkl"},
    {zip_of({{"a/data.pkl", pickle_of("}")}, {"a/data.pkl", pickle_of("}")}}), "two members are named"},
    {zip_of({{"a/data.pkl", pickle_of("}") + "N"}}), "bytes follow the pickle"},
    {zip_of({{"a/data.pkl", pickle_of("}")}}, 8), "compressed or encrypted"},
    {torch_zip(global_op("builtins", "print") + text_op("hi") + "\x85R", {}), "\"builtins.print\""},
    {torch_zip(dict_op({{"w", tensor_op({})}}), {}), "storage \"0\" is not in the file"},
    {torch_zip(dict_op({{"w", tensor_op({})}}), {{"0", four}}, {{"archive/byteorder", "big"}}), "big-endian"},
    {zip_with({}, four.substr(0, 10)), "has 10 bytes, its description says 16"},
    {zip_with({}, four + four), "has 32 bytes, its description says 16"},
    {zip_with(spec_of({2, 3}, {3, 1})), "goes past the 4 elements"},
    {zip_with(spec_of({2}, {1}, 3)), "goes past the 4 elements"},
    {zip_with(spec_of({0}, {1}, 5)), "goes past the 4 elements"},
    {zip_with(spec_of({2}, {huge})), "goes past the 4 elements"},
    {zip_with(spec_of({3}, {huge})), "goes past the 4 elements"},
    {zip_with(spec_of({2, 2}, {2, -1})), "no natural number"},
    {zip_with(spec_of({-2, 2}, {2, 1})), "no natural number"},
    {zip_with(spec_of({2, 2}, {2, 1}, -1)), "no natural number"},
    {zip_with(spec_of({huge, huge}, {0, 0})), "does not fit into 63 bits"},
    {zip_with(spec_of({0, huge, huge}, {0, 0, 0})), "does not fit into 63 bits"},
    {zip_with(spec_of({1 << 20, 1 << 20}, {0, 0})), "stride 0 makes"},
    {zip_with(spec_of({2, 2}, {2})), "another number of sizes"},
    {zip_with(spec_of({1, 1, 1, 1, 1, 1, 1, 1, 1}, {1, 1, 1, 1, 1, 1, 1, 1, 1})), "more than 8 dimensions"},
    {zip_with(spec_of({2, 2}, {2, 1}, 0, huge)), "does not fit into 63 bits"},
    {zip_with(spec_of({2, 2}, {2, 1}, 0, -4)), "described in an unknown way"},
    {zip_with({.type = "CharStorage"}), "\"torch.CharStorage\""},
    {zip_with({.key = ""}), "no usable key"},
    {torch_zip(dict_op({{"w", tensor_op({}, "K\x01")}}), {{"0", four}}), "described in an unknown way"},
    {torch_zip(dict_op({{"w", tensor_op({})}, {"v", tensor_op({.type = "IntStorage"})}}), {{"0", four}}),
     "two sizes or dtypes"},
    {torch_zip(dict_op({{"w", tensor_op({})}, {"w", tensor_op({})}}), {{"0", four}}), "two tensors are named \"w\""},
    {torch_zip(dict_op({{"a.b", tensor_op({})}, {"a", dict_op({{"b", tensor_op({})}})}}), {{"0", four}}),
     "two tensors are named \"a.b\""},
    {torch_zip(tensor_op({}), {{"0", four}}), "without a name"},
    {torch_zip(dict_op({{"a\0b"s, tensor_op({})}}), {{"0", four}}), "holds a NUL"},
    {torch_zip(dict_op({{"\xFF", tensor_op({})}}), {{"0", four}}), "not UTF-8"},
    {torch_zip(dict_op({{std::string(600, 'n'), tensor_op({})}}), {{"0", four}}), "longer than 512"},
    {torch_zip("}NNs", {}), "neither a text nor an integer"},
    {torch_zip(nested(70), {}), "deeper than 64"},
    {torch_zip("}\x94" + text_op("a") + "h\0s"s, {}), "deeper than 64"},
    {torch_zip(bushy(), {}), "more values than"},
    {torch_zip(dict_op({{"w", global_op("torch", "FloatStorage")}}), {}), "where a tensor or a plain value is due"},
    {torch_zip(dict_op({{"w", call_op(global_op("torch", "FloatStorage"), {})}}), {}), "a storage's class is called"},
    {torch_zip(dict_op({{"w", call_op(global_op("torch._utils", "_rebuild_parameter"), {"N"})}}), {}),
     "a parameter without a tensor"},
    {odd_tensor({}), "wrong number of values"},
    {odd_tensor({"N", "K\0"s, ")", ")"}), "its storage is something else"},
    {stream_start(), "cut off"},
    {stream_start(false) + pickle_of("}") + pickle_of("]"), "big-endian"},
    {pickle_of("K\x01"), "magic number"},
    {torch_stream(dict_op({{"w", tensor_op({})}}), {}), "storage \"0\" is not in the file"},
    {torch_stream(dict_op({{"w", tensor_op({})}}), {{"0", 4, four}, {"1", 4, four}}), "that no tensor shows"},
    {torch_stream(dict_op({{"w", tensor_op({})}}), {{"0", 4, four}, {"0", 4, four}}), "or one twice"},
    {torch_stream(dict_op({{"w", tensor_op({})}}), {{"0", 4, four.substr(0, 12)}}), "needs 16 bytes"},
    {torch_stream(dict_op({{"w", tensor_op({})}}), {{"0", 2, four}}), "begins with a count of 8"},
    {torch_stream(dict_op({{"w", tensor_op({})}}), {{"0", 4, four}}) + "x", "1 bytes behind the last storage"},
};

void check_golden(const TorchCheckpoint& file, const nlohmann::json& tensors) {
  CHECK(file.tensors().size() >= tensors.size());
  for (const auto& item : tensors.items()) {
    const std::string name = item.key();
    const nlohmann::json& want = item.value();
    CAPTURE(name);
    const TorchTensor* found = file.find(name);
    if (!found) found = file.find("state_dict." + name);
    REQUIRE(found);
    const std::vector<double> got = to_vector(file.read(*found));
    double sum = 0;
    for (const double value : got) sum += value;
    CHECK(sum == doctest::Approx(want["sum"].get<double>()).epsilon(1e-12));
    CHECK(nlohmann::json(std::vector<int64_t>(found->shape.begin(), found->shape.end())) == want["shape"]);
    for (size_t i = 0; i < want["values"].size(); ++i) CHECK(got[i] == want["values"][i].get<double>());
  }
}
}  // namespace

TEST_CASE("torch: both forms give the tensors, whatever their storages share") {
  const std::string object = dict_op({{"plain", tensor_op({})},
                                      {"transposed", tensor_op(spec_of({2, 2}, {1, 2}))},
                                      {"column", tensor_op(spec_of({2}, {2}, 1))},
                                      {"scalar", tensor_op(spec_of({}, {}, 3))},
                                      {"empty", tensor_op(spec_of({0, 3}, {3, 1}, 4))},
                                      {"epoch", "K\x03"},
                                      {"deep", "](" + tensor_op({}) + "Ne"}});
  for (const bool zip : {true, false}) {
    const std::string bytes = zip ? torch_zip(object, {{"0", four}}) : torch_stream(object, {{"0", 4, four}});
    const Parsed<TorchCheckpoint> file = parse_torch(bytes);
    REQUIRE_MESSAGE(file.value, file.error);
    CHECK(file.value->tensors().size() == 6);
    CHECK(values_of(*file.value, "plain") == std::vector<double>{1, 2, 3, 4});
    CHECK(values_of(*file.value, "transposed") == std::vector<double>{1, 3, 2, 4});
    CHECK(values_of(*file.value, "column") == std::vector<double>{2, 4});
    CHECK(values_of(*file.value, "scalar") == std::vector<double>{4});
    CHECK(values_of(*file.value, "empty").empty());
    CHECK(values_of(*file.value, "deep.0") == std::vector<double>{1, 2, 3, 4});
    CHECK(file.value->find("empty")->shape == Shape{0, 3});
    CHECK(file.value->find("epoch") == nullptr);
  }
}

TEST_CASE("torch: what must be refused is, with the reason, at once and without much memory") {
  rusage before{}, after{};
  ::getrusage(RUSAGE_SELF, &before);
  for (size_t i = 0; i < bad_files.size(); ++i) {
    CAPTURE(i);
    const std::clock_t start = std::clock();
    const Parsed<TorchCheckpoint> file = parse_torch(bad_files[i].file);
    CHECK(static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC < 1.0);
    CHECK_FALSE(file.value);
    CAPTURE(file.error);
    CHECK(contains(file.error, bad_files[i].words));
  }
  ::getrusage(RUSAGE_SELF, &after);
  CHECK(after.ru_maxrss - before.ru_maxrss < 64 << 10);  // KB
  CHECK(bad_files.size() >= 40);
}

TEST_CASE("torch: errors are exit 4 and name the file; a cut while it is open and a wrong checksum are seen") {
  const TempFolder folder;
  const auto bad = error_of([&] { (void)TorchCheckpoint::open(folder.write("a.bin", "<html>")); });
  REQUIRE(bad);
  CHECK(bad->exit_code() == 4);
  CHECK(bad->code() == "E-FILE-TORCH");
  CHECK(contains(bad->what(), folder.path("a.bin")));
  CHECK(contains(error_text([&] { (void)TorchCheckpoint::open(folder.path("none")); }), "E-FILE-MISSING"));

  const std::string object = dict_op({{"w", tensor_op({})}});
  const std::string path = folder.write("b.bin", torch_stream(object, {{"0", 4, four}}));
  const TorchCheckpoint stream = TorchCheckpoint::open(path);
  std::filesystem::resize_file(path, std::filesystem::file_size(path) - 1);
  CHECK(contains(error_text([&] { (void)stream.read(stream.tensors()[0]); }), "E-FILE-TRUNCATED"));

  std::string flipped = zip_with({});
  flipped[flipped.find(four) + 5] ^= 1;
  const Parsed<TorchCheckpoint> zip = parse_torch(flipped);
  REQUIRE_MESSAGE(zip.value, zip.error);
  CHECK(contains(error_text([&] { (void)zip.value->read(zip.value->tensors()[0]); }), "E-FILE-TRUNCATED"));

  const std::string untrue = zip_with({.type = "BoolStorage"}, "\x01\x02\x01\x01");
  const Parsed<TorchCheckpoint> truth = parse_torch(untrue);
  REQUIRE_MESSAGE(truth.value, truth.error);
  CHECK(contains(error_text([&] { (void)truth.value->read(truth.value->tensors()[0]); }), "E-FILE-BOOL"));
}

TEST_CASE("torch: a zip whose end record lies about its size is refused before anything is allocated") {
  std::string wide = zip_with({});
  const size_t end = wide.rfind("PK\x05\x06");
  const std::string record = "PK\x06\x06" + little(44, 8) + little(45, 2) + little(45, 2) + little(0, 8) +
                             little(uint64_t{1} << 40, 8) + little(uint64_t{1} << 40, 8) + little(100, 8) +
                             little(0, 8);
  wide.insert(end, record + "PK\x06\x07" + little(0, 4) + little(end, 8) + little(1, 4));
  CHECK(contains(parse_torch(wide).error, "more members"));
  std::string large = zip_with({});
  large.replace(large.rfind("PK\x05\x06") + 12, 4, little(0x7FFFFFFF, 4));
  CHECK(contains(parse_torch(large).error, "more members"));
}

TEST_CASE("torch: cut at every byte, and changed at random, nothing breaks") {
  const std::string object = dict_op({{"w", tensor_op({})}, {"v", tensor_op(spec_of({2}, {1}, 2))}});
  for (const std::string& whole : {torch_zip(object, {{"0", four}}), torch_stream(object, {{"0", 4, four}})}) {
    REQUIRE(parse_torch(whole).value);
    size_t accepted = 0;
    for (size_t size = 0; size < whole.size(); ++size) accepted += parse_torch(whole.substr(0, size)).value.has_value();
    CHECK(accepted == 0);
    std::mt19937 random(11);
    for (int i = 0; i < 3'000; ++i) {
      std::string changed = whole;
      for (uint32_t count = 1 + random() % 3; count > 0; --count) {
        changed[random() % changed.size()] = static_cast<char>(random());
      }
      const Parsed<TorchCheckpoint> file = parse_torch(changed);
      CHECK(file.value.has_value() == file.error.empty());
      if (!file.value) continue;
      for (const TorchTensor& tensor : file.value->tensors()) {
        Tensor read;
        const auto error = error_of([&] { read = file.value->read(tensor); });
        CHECK((error || read.shape() == tensor.shape));
      }
    }
  }
}

TEST_CASE("torch: the golden files: good ones give their values, bad ones are refused") {
  if (no_shared()) return;
  std::istringstream lines(slurp(shared_path("data/torch_files/manifest.jsonl")));
  size_t good = 0, bad = 0;
  for (std::string line; std::getline(lines, line);) {
    const nlohmann::json row = nlohmann::json::parse(line);
    const std::string name = row["file"], path = shared_path("data/torch_files/" + name);
    CAPTURE(name);
    if (row["expect"] == "accept") {
      ++good;
      check_golden(TorchCheckpoint::open(path), row["tensors"]);
      continue;
    }
    ++bad;
    const auto error = error_of([&] { (void)TorchCheckpoint::open(path); });
    REQUIRE(error);
    CHECK(error->exit_code() == 4);
    if (contains(name, "bad_code")) CHECK(contains(error->what(), "builtins.print"));
    if (contains(name, "bad_lfs")) CHECK(contains(error->what(), "git-lfs"));
  }
  CHECK(good == 9);
  CHECK(bad == 15);
}

TEST_CASE("torch: golden files cut at each byte of the first 4 KiB and at 1,000 random places are refused") {
  if (no_shared()) return;
  std::mt19937 random(3);
  for (const char* name : {"zip_views.bin", "legacy_dtypes.bin"}) {
    const std::string whole = slurp(shared_path(std::string("data/torch_files/") + name));
    size_t accepted = 0;
    std::clock_t longest = 0;
    for (size_t i = 0; i < 5'096; ++i) {
      const size_t size = i < 4'096 ? i : random() % whole.size();
      if (size >= whole.size()) continue;
      const std::clock_t start = std::clock();
      accepted += parse_torch(std::string_view(whole).substr(0, size)).value.has_value();
      longest = std::max(longest, std::clock() - start);
    }
    CHECK(accepted == 0);
    CHECK(static_cast<double>(longest) / CLOCKS_PER_SEC < 0.1);
  }
}

}  // namespace mixtape::data
