#include "data/weight_file.h"

#include <algorithm>
#include <filesystem>
#include <map>

#include "core/error.h"
#include "data/weight_index.h"

namespace mixtape::data {
namespace {

namespace fs = std::filesystem;
constexpr std::string_view file_names[] = {"model.safetensors", "model.safetensors.index.json", "pytorch_model.bin",
                                           "pytorch_model.bin.index.json"};

[[noreturn]] void fail_index(const std::string& path, const std::string& why) {
  fail(ErrorKind::model, "E-FILE-INDEX", message(path, ": ", why));
}

bool is_torch_name(std::string_view path) {
  for (const std::string_view ending : {".bin", ".pt", ".pth", ".ckpt"}) {
    if (path.ends_with(ending)) return true;
  }
  return false;
}

/// By the ending; without a known one by the first bytes.
bool is_torch(const InputFile& file) {
  if (file.path().ends_with(".safetensors")) return false;
  std::byte start[2] = {};
  const bool has_start = file.read_at(0, start) == 2;
  const bool is_zip = start[0] == std::byte{'P'} && start[1] == std::byte{'K'};
  return is_torch_name(file.path()) || (has_start && (is_zip || start[0] == std::byte{0x80}));
}

/// The file that a directory means, and the others that are there.
std::string choose(const std::string& dir, std::vector<std::string>& passed_over) {
  std::string chosen;
  for (const std::string_view name : file_names) {
    const std::string path = message(dir, "/", name);
    std::error_code ignored;
    if (!fs::exists(path, ignored)) continue;
    if (chosen.empty())
      chosen = path;
    else
      passed_over.push_back(path);
  }
  if (chosen.empty()) {
    fail(ErrorKind::model, "E-FILE-MISSING",
         message(dir, " holds no weights: expected model.safetensors or pytorch_model.bin, or the .index.json of one"));
  }
  return chosen;
}

/// A shard that is a link must end in the same folder, or, as in the cache of the hub (snapshots/X/file →
/// ../../blobs/HASH), beside its snapshots.
void check_target(const InputFile& shard, const std::string& index_path, const std::string& entry) {
  std::error_code error;
  const fs::path real = fs::path(shard.real_path()).parent_path();
  const fs::path folder = fs::canonical(fs::absolute(index_path).parent_path(), error);
  const fs::path snapshots = folder.parent_path();
  const bool in_cache = snapshots.filename() == "snapshots" && real == snapshots.parent_path() / "blobs";
  if (!error && (real == folder || in_cache)) return;
  fail_index(index_path, message("weight_map: the entry ", data::quoted(entry), " names ", data::quoted(shard.path()),
                                 ", a link that leads out of the folder, to ", real.string()));
}

}  // namespace

WeightFile WeightFile::open(const std::string& path) {
  std::error_code ignored;
  std::vector<std::string> passed_over;
  const std::string chosen = fs::is_directory(path, ignored) ? choose(path, passed_over) : path;
  WeightFile out(chosen);
  out.passed_over_ = std::move(passed_over);
  if (chosen.ends_with(".json")) {
    out.open_index();
  } else {
    InputFile file(chosen, ErrorKind::model, "E-FILE-MISSING");
    if (is_torch(file))
      out.add(TorchCheckpoint::open(std::move(file)));
    else
      out.add(SafeTensorsFile::open(std::move(file)));
  }
  out.sort();
  out.drop_prefixes();
  return out;
}

void WeightFile::open_index() {
  const std::string text = read_file(path_, ErrorKind::model, "E-FILE-INDEX", index_limit::bytes);
  const Parsed<WeightIndex> index = parse_weight_index(std::as_bytes(std::span(text)));
  if (!index.value) fail_index(path_, index.error);
  std::map<std::string, size_t> opened;
  for (const auto& [tensor, shard] : index.value->shard_of) {
    const auto [entry, fresh] = opened.try_emplace(shard, files_.size());
    if (!fresh) continue;
    const fs::path folder = fs::path(path_).parent_path();
    const std::string shard_path = (folder / shard).string();
    std::error_code ignored;
    if (!fs::exists(shard_path, ignored)) {
      fail_index(path_, message("weight_map: the entry ", data::quoted(tensor), " names ", data::quoted(shard),
                                ", which is not in the folder"));
    }
    InputFile file(shard_path, ErrorKind::model, "E-FILE-INDEX");
    check_target(file, path_, tensor);
    if (is_torch(file))
      add(TorchCheckpoint::open(std::move(file)));
    else
      add(SafeTensorsFile::open(std::move(file)));
  }
  sort();
  for (const auto& [tensor, shard] : index.value->shard_of) {
    const Weight* const found = find(tensor);
    if (!found || found->file != opened.at(shard)) {
      fail_index(path_, message("weight_map: the entry ", data::quoted(tensor), " is not in ", data::quoted(shard)));
    }
  }
}

void WeightFile::add(File file) {
  const auto list = [&](const auto& opened) {
    for (size_t i = 0; i < opened.tensors().size(); ++i) {
      const auto& tensor = opened.tensors()[i];
      tensors_.push_back({tensor.name, tensor.dtype, tensor.shape, files_.size(), i});
    }
  };
  std::visit(list, file);
  files_.push_back(std::move(file));
  if (tensors_.size() > weight_limit::tensors) fail_index(path_, "more than 65536 tensors in all files together");
}

void WeightFile::sort() {
  std::sort(tensors_.begin(), tensors_.end(), [](const Weight& a, const Weight& b) { return a.name < b.name; });
  const auto twin = std::adjacent_find(tensors_.begin(), tensors_.end(),
                                       [](const Weight& a, const Weight& b) { return a.name == b.name; });
  if (twin != tensors_.end()) fail_index(path_, message("tensor ", data::quoted(twin->name), " stands in two files"));
}

void WeightFile::drop_prefixes() {
  const auto share = [&](std::string_view prefix) {
    return !tensors_.empty() && std::all_of(tensors_.begin(), tensors_.end(), [&](const Weight& tensor) {
      return tensor.name.starts_with(prefix) && tensor.name.size() > prefix.size();
    });
  };
  constexpr std::string_view prefixes[] = {"state_dict.", "model.", "module."};
  while (true) {
    const auto found = std::find_if(std::begin(prefixes), std::end(prefixes), share);
    if (found == std::end(prefixes)) return;
    for (Weight& tensor : tensors_) tensor.name.erase(0, found->size());  // the order stays
  }
}

const Weight* WeightFile::find(std::string_view name) const {
  const auto at = std::lower_bound(tensors_.begin(), tensors_.end(), name,
                                   [](const Weight& weight, std::string_view wanted) { return weight.name < wanted; });
  return at != tensors_.end() && at->name == name ? &*at : nullptr;
}

Tensor WeightFile::read(const Weight& weight) const {
  return std::visit([&](const auto& file) { return file.read(file.tensors()[weight.place]); }, files_[weight.file]);
}

}  // namespace mixtape::data
