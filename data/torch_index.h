// What a PyTorch checkpoint's pickle says: which tensors there are, and which part of which storage each one shows.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/dtype.h"
#include "core/shape.h"
#include "data/parsed.h"

namespace mixtape::data {

struct TorchStorage {
  std::string key;
  DType dtype = DType::f32;
  uint64_t bytes = 0;
};

/// Several tensors may show the same storage.
struct TorchTensor {
  std::string name;  ///< the keys on the way to it, joined by dots
  DType dtype = DType::f32;
  Shape shape;
  Strides strides;      ///< in elements, none negative
  uint64_t offset = 0;  ///< of its first element in the storage, in elements
  uint64_t bytes = 0;   ///< numel · size of the dtype; never more than the storage has
  size_t storage = 0;   ///< in TorchIndex::storages
};

struct TorchIndex {
  std::vector<TorchStorage> storages;
  std::vector<TorchTensor> tensors;  ///< sorted by name
};

/// Reads `data.pkl` of a checkpoint. Each tensor lies inside its storage, all products are checked, and nothing is
/// executed. Never throws (but bad_alloc).
Parsed<TorchIndex> parse_torch_pickle(std::span<const std::byte> pickle);

/// The pickles at the start of a file of the form that PyTorch wrote before 1.6: magic number, protocol, machine, the
/// object, the keys of the storages in the order in which these follow.
struct TorchStreamHead {
  TorchIndex index;
  std::vector<size_t> order;  ///< numbers of index.storages
  uint64_t bytes = 0;         ///< of the pickles together; the storages follow
};
struct ParsedStreamHead : Parsed<TorchStreamHead> {
  bool cut_off = false;  ///< the error is that the bytes end inside a pickle
};
/// `file_start` holds the pickles and may hold more. Never throws (but bad_alloc).
ParsedStreamHead parse_torch_stream(std::span<const std::byte> file_start);

}  // namespace mixtape::data
