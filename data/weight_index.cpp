#include "data/weight_index.h"

#include <nlohmann/json.hpp>
#include <set>

#include "core/error.h"
#include "data/file.h"

namespace mixtape::data {
namespace {

using Json = nlohmann::json;

/// Takes the events of the parser, so that no tree is ever built.
class IndexReader : public nlohmann::json_sax<Json> {
 public:
  bool null() override { return scalar(); }
  bool boolean(bool) override { return scalar(); }
  bool number_integer(number_integer_t) override { return scalar(); }
  bool number_unsigned(number_unsigned_t) override { return scalar(); }
  bool number_float(number_float_t, const string_t&) override { return scalar(); }
  bool binary(binary_t&) override { return scalar(); }
  bool string(string_t& text) override;
  bool start_object(size_t) override;
  bool end_object() override;
  bool start_array(size_t) override { return open("a list"); }
  bool end_array() override { return --depth_ >= 0; }
  bool key(string_t& name) override;
  bool parse_error(size_t byte, const std::string&, const nlohmann::detail::exception&) override {
    return refuse(message("is no valid JSON from byte ", byte, " on"));
  }

  WeightIndex index;
  bool has_map = false;
  std::string error;

 private:
  bool refuse(std::string why) {
    if (error.empty()) error = std::move(why);
    return false;
  }
  bool inside_map() const { return in_map_ && depth_ == 2; }
  bool scalar() {
    if (depth_ == 0) return refuse("is no JSON object");
    if (inside_map()) return refuse(message("weight_map: the entry ", data::quoted(key_), " is no file name"));
    if (depth_ == 1 && key_ == "weight_map") return refuse("weight_map is no object");
    return true;
  }
  bool open(const char* what) {
    if (depth_ == 0 && std::string_view(what) == "a list") return refuse("is no JSON object");
    if (inside_map())
      return refuse(message("weight_map: the entry ", data::quoted(key_), " is ", what, ", no file name"));
    return ++depth_ <= index_limit::depth || refuse("nests deeper than 64");
  }

  int depth_ = 0;
  bool in_map_ = false;
  std::string key_;
  std::set<std::string> shards_;
};

bool is_plain(const std::string& name) {
  return !name.empty() && name != "." && name != ".." && name.size() <= 255 &&
         name.find_first_of(std::string_view("/\\\0", 3)) == std::string::npos;
}

bool IndexReader::string(string_t& text) {
  if (!inside_map()) return scalar();
  if (!is_plain(text)) {
    return refuse(message("weight_map: the entry ", data::quoted(key_), " names ", data::quoted(text),
                          "; expected a plain file name in the same folder"));
  }
  if (index.shard_of.size() >= weight_limit::tensors) return refuse("weight_map has more than 65536 entries");
  if (!index.shard_of.emplace(key_, text).second) {
    return refuse(message("weight_map: the entry ", data::quoted(key_), " comes twice"));
  }
  shards_.insert(text);
  return shards_.size() <= index_limit::shards || refuse("weight_map names more than 256 files");
}

bool IndexReader::start_object(size_t) {
  const bool is_map = depth_ == 1 && key_ == "weight_map";
  if (is_map && has_map) return refuse("weight_map comes twice");
  if (!open("an object")) return false;
  in_map_ = in_map_ || is_map;
  has_map = has_map || is_map;
  return true;
}

bool IndexReader::end_object() {
  if (inside_map()) in_map_ = false;
  return --depth_ >= 0;
}

bool IndexReader::key(string_t& name) {
  if (inside_map() && name.size() > weight_limit::name_bytes) {
    return refuse(message("weight_map: the entry ", data::quoted(name), " is longer than 512 bytes"));
  }
  if (depth_ <= 2) key_ = name;
  return true;
}

}  // namespace

Parsed<WeightIndex> parse_weight_index(std::span<const std::byte> json) {
  if (json.size() > index_limit::bytes) return {{}, "has more than the 16777216 bytes that an index may have"};
  const char* const begin = reinterpret_cast<const char*>(json.data());
  IndexReader reader;
  const bool whole = Json::sax_parse(begin, begin + json.size(), &reader);
  if (!reader.error.empty()) return {{}, std::move(reader.error)};
  if (!whole || !reader.has_map) return {{}, "has no weight_map"};
  return {std::move(reader.index), {}};
}

}  // namespace mixtape::data
