// The weights of a model, whatever files they stand in: safetensors or a PyTorch checkpoint, whole or in shards.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "data/safetensors.h"
#include "data/torch_checkpoint.h"

namespace mixtape::data {

struct Weight {
  std::string name;  ///< without the prefix that wrapped all of them
  DType dtype = DType::f32;
  Shape shape;
  size_t file = 0;   ///< which of the files it stands in,
  size_t place = 0;  ///< and its number there
};

class WeightFile {
 public:
  /// `path` is a file or a directory. Of a directory the first of these is taken: model.safetensors,
  /// model.safetensors.index.json, pytorch_model.bin, pytorch_model.bin.index.json. A file is read by its ending
  /// (.safetensors, .json, .bin, .pt, .pth, .ckpt), without one by its first bytes. A prefix that all names share
  /// (`state_dict.`, `model.`, `module.`) is dropped. Errors are kind model and name the file: E-FILE-MISSING,
  /// E-FILE-SAFETENSORS, E-FILE-TORCH, E-FILE-INDEX.
  static WeightFile open(const std::string& path);

  const std::string& path() const { return path_; }  ///< of the file or index that was taken
  /// Other weight files of the directory, which are not read.
  const std::vector<std::string>& passed_over() const { return passed_over_; }
  const std::vector<Weight>& tensors() const { return tensors_; }  ///< sorted by name
  const Weight* find(std::string_view name) const;                 ///< null when there is none

  /// Contiguous. Throws E-FILE-TRUNCATED and E-FILE-BOOL as the files do.
  Tensor read(const Weight& weight) const;

 private:
  using File = std::variant<SafeTensorsFile, TorchCheckpoint>;
  explicit WeightFile(std::string path) : path_(std::move(path)) {}
  void open_index();
  void add(File file);
  void sort();
  void drop_prefixes();

  std::string path_;
  std::vector<std::string> passed_over_;
  std::vector<File> files_;
  std::vector<Weight> tensors_;
};

}  // namespace mixtape::data
