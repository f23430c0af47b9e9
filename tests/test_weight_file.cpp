// Weights in whichever files they stand: which file is taken, shards, prefixes, and what an index may name.
#include <doctest/doctest.h>
#include <sys/stat.h>

#include <filesystem>
#include <string>
#include <vector>

#include "core/factory.h"
#include "data/weight_file.h"
#include "data/weight_index.h"
#include "tests/shared.h"
#include "tests/torch_files.h"

namespace mixtape::data {
namespace {
using namespace tests;
using namespace std::string_literals;
namespace fs = std::filesystem;

Parsed<WeightIndex> parse_index(std::string_view json) {
  return parse_weight_index(std::as_bytes(std::span(json.data(), json.size())));
}

const std::string four_floats = bytes_of<float>({1, 2, 3, 4});

std::string torch_file(const std::vector<std::string>& names) {
  std::vector<Member> members;
  for (const std::string& name : names) members.push_back({name, tensor_op({})});
  return torch_zip(dict_op(members), {{"0", four_floats}});
}

std::vector<std::string> names_in(const WeightFile& file) {
  std::vector<std::string> names;
  for (const Weight& weight : file.tensors()) names.push_back(weight.name);
  return names;
}
using Names = std::vector<std::string>;

std::string index_of(const std::vector<Member>& map) {
  std::string json = "{\"metadata\": {\"total_size\": 32, \"deep\": [{\"a\": null}]}, \"weight_map\": {";
  for (size_t i = 0; i < map.size(); ++i) {
    json += (i > 0 ? ", \"" : "\"") + map[i].first + "\": \"" + map[i].second + "\"";
  }
  return json + "}}";
}

std::string open_error(const std::string& path) {
  const auto error = error_of([&] { (void)WeightFile::open(path); });
  if (!error) return "no error";
  CHECK(error->exit_code() == 4);
  return error->code() + ": " + error->what();
}

/// A folder with two shards, "a" in one and "b" in the other.
void write_shards(const TempFolder& folder) {
  write_safetensors(folder.path("one.safetensors"), {{"a", full({2}, 1)}});
  write_safetensors(folder.path("two.safetensors"), {{"b", full({3}, 2, DType::bf16)}});
}
const std::string index_name = "model.safetensors.index.json";

struct IndexCase {
  std::string json, words;
};
const std::vector<IndexCase> bad_indices = {
    {"", "no valid JSON"},
    {"[]", "no JSON object"},
    {"3", "no JSON object"},
    {"{}", "has no weight_map"},
    {"{\"weight_map\": 3}", "weight_map is no object"},
    {"{\"weight_map\": {\"a\": 1}}", "the entry \"a\" is no file name"},
    {"{\"weight_map\": {\"a\": {}}}", "the entry \"a\" is an object"},
    {"{\"weight_map\": {\"a\": []}}", "the entry \"a\" is a list"},
    {"{\"weight_map\": {\"a\": \"x\", \"a\": \"x\"}}", "the entry \"a\" comes twice"},
    {"{\"weight_map\": {}, \"weight_map\": {}}", "weight_map comes twice"},
    {index_of({{"a", "../x.safetensors"}}), "the entry \"a\" names \"../x.safetensors\""},
    {index_of({{"a", "/abs/x"}}), "the entry \"a\" names \"/abs/x\""},
    {index_of({{"a", "a/../../x"}}), "expected a plain file name"},
    {index_of({{"a", "sub/x"}}), "expected a plain file name"},
    {index_of({{"a", ".."}}), "expected a plain file name"},
    {index_of({{"a", "."}}), "expected a plain file name"},
    {index_of({{"a", ""}}), "expected a plain file name"},
    {index_of({{"a", "x\\\\y"}}), "expected a plain file name"},
    {index_of({{"a", "x\\u0000"}}), "expected a plain file name"},
    {index_of({{"a", std::string(300, 'x')}}), "expected a plain file name"},
    {index_of({{std::string(600, 'a'), "x"}}), "longer than 512 bytes"},
    {"{\"weight_map\": {\"a\": \"x\"}", "no valid JSON"},
    {"{\"weight_map\": {\"a\": \"\xFF\"}}", "no valid JSON"},
    {"{\"x\": " + std::string(100'000, '[') + "}", "deeper than 64"},
    {"{\"x\": 1e999, \"weight_map\": {}}", "no valid JSON"},
};
}  // namespace

TEST_CASE("weight index: what it accepts and refuses") {
  const Parsed<WeightIndex> good = parse_index(index_of({{"a", "one"}, {"b", "two"}}));
  REQUIRE_MESSAGE(good.value, good.error);
  CHECK(good.value->shard_of == std::map<std::string, std::string>{{"a", "one"}, {"b", "two"}});
  for (const IndexCase& c : bad_indices) {
    CAPTURE(c.json.substr(0, 80));
    const Parsed<WeightIndex> parsed = parse_index(c.json);
    CHECK_FALSE(parsed.value);
    CAPTURE(parsed.error);
    CHECK(contains(parsed.error, c.words));
  }
  std::vector<Member> many;
  for (int i = 0; i < 257; ++i) many.push_back({"t" + std::to_string(i), "f" + std::to_string(i)});
  CHECK(contains(parse_index(index_of(many)).error, "more than 256 files"));
}

TEST_CASE("weights: of a directory the first known file is taken, the others are named") {
  const TempFolder folder;
  CHECK(contains(open_error(folder.path()), "E-FILE-MISSING"));
  CHECK(contains(open_error(folder.path()), "expected model.safetensors or pytorch_model.bin"));
  folder.write("pytorch_model.bin", torch_file({"torch"}));
  CHECK(names_in(WeightFile::open(folder.path())) == Names{"torch"});
  write_safetensors(folder.path("model.safetensors"), {{"safe", zeros({1})}});
  const WeightFile both = WeightFile::open(folder.path());
  CHECK(names_in(both) == Names{"safe"});
  CHECK(both.path() == folder.path("model.safetensors"));
  CHECK(both.passed_over() == Names{folder.path("pytorch_model.bin")});
}

TEST_CASE("weights: a file is read by its ending, without a known one by its first bytes") {
  const TempFolder folder;
  CHECK(names_in(WeightFile::open(folder.write("x", torch_file({"w"})))) == Names{"w"});
  const std::string stream = torch_stream(dict_op({{"w", tensor_op({})}}), {{"0", 4, four_floats}});
  CHECK(names_in(WeightFile::open(folder.write("y", stream))) == Names{"w"});
  CHECK(contains(open_error(folder.write("z.safetensors", torch_file({"w"}))), "E-FILE-SAFETENSORS"));
  CHECK(contains(open_error(folder.write("z.bin", "not much")), "E-FILE-TORCH"));
  CHECK(contains(open_error(folder.write("z.json", "not much")), "E-FILE-INDEX"));
}

TEST_CASE("weights: a prefix goes when all tensors share it") {
  const TempFolder folder;
  const auto names = [&](const Names& written) {
    return names_in(WeightFile::open(folder.write("x.bin", torch_file(written))));
  };
  CHECK(names({"module.a", "module.b"}) == Names{"a", "b"});
  CHECK(names({"state_dict.module.model.a", "state_dict.module.model.b.c"}) == Names{"a", "b.c"});
  CHECK(names({"model.a", "b"}) == Names{"b", "model.a"});
  CHECK(names({"model.model."}) == Names{"model."});
  const std::string nested =
      torch_zip(dict_op({{"state_dict", dict_op({{"a", tensor_op({})}})}, {"epoch", "K\x02"}}), {{"0", four_floats}});
  CHECK(names_in(WeightFile::open(folder.write("n.bin", nested))) == Names{"a"});
}

TEST_CASE("weights: shards of both formats are one file") {
  const TempFolder folder;
  write_shards(folder);
  folder.write("three.bin", torch_file({"c"}));
  folder.write(index_name, index_of({{"a", "one.safetensors"}, {"b", "two.safetensors"}, {"c", "three.bin"}}));
  const WeightFile file = WeightFile::open(folder.path());
  CHECK(file.path() == folder.path(index_name));
  CHECK(names_in(file) == Names{"a", "b", "c"});
  CHECK(to_vector(file.read(*file.find("a"))) == std::vector<double>{1, 1});
  CHECK(file.find("b")->dtype == DType::bf16);
  CHECK(to_vector(file.read(*file.find("b"))) == std::vector<double>{2, 2, 2});
  CHECK(to_vector(file.read(*file.find("c"))) == std::vector<double>{1, 2, 3, 4});
}

TEST_CASE("weights: what an index names must be there, once, and in its folder") {
  const TempFolder folder, outside;
  write_shards(folder);
  const auto error_with = [&](const std::vector<Member>& map) {
    return open_error(folder.write(index_name, index_of(map)));
  };
  const Member a = {"a", "one.safetensors"}, b = {"b", "two.safetensors"};
  CHECK(
      contains(error_with({a, {"b", "gone.safetensors"}}), "the entry \"b\" names \"gone.safetensors\", which is not"));
  CHECK(contains(error_with({a, {"b", "one.safetensors"}}), "the entry \"b\" is not in \"one.safetensors\""));
  CHECK(contains(error_with({a, b, {"c", "two.safetensors"}}), "the entry \"c\" is not in"));
  write_safetensors(folder.path("twin.safetensors"), {{"a", zeros({1})}, {"t", zeros({1})}});
  CHECK(contains(error_with({a, {"t", "twin.safetensors"}}), "stands in two files"));

  write_safetensors(outside.path("secret.safetensors"), {{"b", zeros({1})}});
  fs::create_symlink(outside.path("secret.safetensors"), folder.path("link.safetensors"));
  const std::string error = error_with({a, {"b", "link.safetensors"}});
  CHECK(contains(error, "the entry \"b\" names"));
  CHECK(contains(error, "a link that leads out of the folder"));
  fs::create_symlink("two.safetensors", folder.path("near.safetensors"));
  folder.write(index_name, index_of({a, {"b", "near.safetensors"}}));
  CHECK(names_in(WeightFile::open(folder.path())) == Names{"a", "b"});
}

TEST_CASE("weights: the layout of the hub's cache, links into blobs, is read") {
  const TempFolder folder;
  fs::create_directories(folder.path("blobs"));
  fs::create_directories(folder.path("snapshots/abc"));
  write_safetensors(folder.path("blobs/0123"), {{"a", zeros({1})}});
  fs::create_symlink("../../blobs/0123", folder.path("snapshots/abc/one.safetensors"));
  folder.write("snapshots/abc/" + index_name, index_of({{"a", "one.safetensors"}}));
  CHECK(names_in(WeightFile::open(folder.path("snapshots/abc"))) == Names{"a"});
}

TEST_CASE("weights: a pipe is refused at once, not waited for") {
  const TempFolder folder;
  const std::string pipe = folder.path("model.safetensors");
  REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);
  CHECK(contains(open_error(pipe), "is no regular file"));
  CHECK(contains(open_error(folder.path()), "is no regular file"));
}

}  // namespace mixtape::data
