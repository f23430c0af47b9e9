// PyTorch checkpoints (pytorch_model.bin), read without Python and without executing anything: the zip that torch.save
// writes since 1.6, and the stream of pickles and storages that it wrote before.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/tensor.h"
#include "data/byte_source.h"
#include "data/torch_index.h"
#include "data/zip_file.h"

namespace mixtape::data {

class TorchCheckpoint {
 public:
  /// Errors are kind model and name the path: E-FILE-MISSING, E-FILE-TORCH (and what is wrong; a refused global or
  /// opcode by its name). Storages are only read when a tensor is.
  static TorchCheckpoint open(const std::string& path);
  static TorchCheckpoint open(InputFile file);
  /// The same from the bytes of a file, which must outlive the result. Never throws (but bad_alloc).
  static Parsed<TorchCheckpoint> parse(std::span<const std::byte> file);

  const std::string& path() const { return path_; }
  const std::vector<TorchTensor>& tensors() const { return index_.tensors; }  ///< sorted by name
  const TorchTensor* find(std::string_view name) const;                       ///< null when there is none

  /// A contiguous tensor of its own. Needs memory for the part of the storage that the tensor spans, too, unless that
  /// part is the tensor. Throws E-FILE-TRUNCATED when the file has been cut since or a checksum is wrong, E-FILE-BOOL
  /// for a truth value other than 0 and 1.
  Tensor read(const TorchTensor& tensor) const;

 private:
  explicit TorchCheckpoint(std::unique_ptr<ByteSource> source) : source_(std::move(source)) {}
  static Parsed<TorchCheckpoint> from(std::unique_ptr<ByteSource> source);
  std::string read_zip();
  std::string check_members(const std::string& folder);
  std::string read_stream();
  std::string place_storages(const TorchStreamHead& head);
  void read_bytes(const TorchTensor& tensor, uint64_t offset, std::span<std::byte> target) const;

  std::string path_ = "checkpoint";
  std::unique_ptr<ByteSource> source_;
  TorchIndex index_;
  std::optional<ZipFile> zip_;              // of the newer form
  std::vector<const ZipMember*> storages_;  // there: of each storage
  std::vector<uint64_t> places_;            // of the older form: of each storage's bytes in the file
};

}  // namespace mixtape::data
