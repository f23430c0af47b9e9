#include "data/torch_checkpoint.h"

#include <algorithm>
#include <utility>

#include "core/error.h"
#include "core/factory.h"

namespace mixtape::data {
namespace {

constexpr uint64_t first_window = 256 << 10;  // BERT-base's pickles have 20 KB
constexpr std::string_view pickle_name = "data.pkl";

bool is_zip(std::span<const std::byte> start) {
  return start.size() >= 2 && start[0] == std::byte{'P'} && start[1] == std::byte{'K'};
}
bool is_pickle(std::span<const std::byte> start) { return !start.empty() && start[0] == std::byte{0x80}; }

/// Elements from the first to the last that a tensor shows, both included.
int64_t span_of(const TorchTensor& tensor) {
  if (tensor.bytes == 0) return 0;
  int64_t last = 0;
  for (int axis = 0; axis < tensor.shape.rank(); ++axis) last += (tensor.shape[axis] - 1) * tensor.strides[axis];
  return last + 1;
}

}  // namespace

TorchCheckpoint TorchCheckpoint::open(const std::string& path) {
  return open(InputFile(path, ErrorKind::model, "E-FILE-MISSING"));
}

TorchCheckpoint TorchCheckpoint::open(InputFile file) {
  const std::string path = file.path();
  Parsed<TorchCheckpoint> parsed = from(std::make_unique<ByteSource>(std::move(file)));
  if (!parsed.value) fail(ErrorKind::model, "E-FILE-TORCH", message(path, ": ", parsed.error));
  parsed.value->path_ = path;
  return std::move(*parsed.value);
}

Parsed<TorchCheckpoint> TorchCheckpoint::parse(std::span<const std::byte> file) {
  return from(std::make_unique<ByteSource>(file));
}

Parsed<TorchCheckpoint> TorchCheckpoint::from(std::unique_ptr<ByteSource> source) {
  const std::vector<std::byte> start = source->read(0, 64);
  TorchCheckpoint out(std::move(source));
  std::string why;
  if (is_zip(start)) {
    why = out.read_zip();
  } else if (is_pickle(start)) {
    why = out.read_stream();
  } else {
    why = message("is neither a zip nor a pickle, so no PyTorch checkpoint; it has ", out.source_->size(), " bytes",
                  guess_format(start));
  }
  if (!why.empty()) return {{}, std::move(why)};
  return {std::move(out), {}};
}

std::string TorchCheckpoint::read_zip() {
  Parsed<ZipFile> zip = ZipFile::open(*source_);
  if (!zip.value) return "is a zip that cannot be read: " + zip.error;
  zip_.emplace(std::move(*zip.value));
  std::string folder;
  const ZipMember* pickle = nullptr;
  for (const ZipMember& member : zip_->members()) {
    const size_t slash = member.name.find('/');
    if (slash == std::string::npos || std::string_view(member.name).substr(slash + 1) != pickle_name) continue;
    if (pickle) return "is a zip with more than one data.pkl";
    pickle = &member;
    folder = member.name.substr(0, slash + 1);
  }
  if (!pickle) return "is a zip without a data.pkl, so no PyTorch checkpoint";
  if (pickle->bytes > weight_limit::header_bytes || pickle->bytes > source_->size()) {
    return message("its data.pkl of ", pickle->bytes, " bytes is larger than any may be");
  }
  std::vector<std::byte> bytes(static_cast<size_t>(pickle->bytes));
  if (std::string why = zip_->read(*pickle, 0, bytes); !why.empty()) return why;
  Parsed<TorchIndex> index = parse_torch_pickle(bytes);
  if (!index.value) return index.error;
  index_ = std::move(*index.value);
  return check_members(folder);
}

std::string TorchCheckpoint::check_members(const std::string& folder) {
  if (const ZipMember* order = zip_->find(folder + "byteorder")) {
    std::string text(static_cast<size_t>(std::min<uint64_t>(order->bytes, 16)), ' ');
    if (std::string why = zip_->read(*order, 0, std::as_writable_bytes(std::span(text))); !why.empty()) return why;
    if (text != "little") return "was written on a big-endian machine, which is not supported";
  }
  for (const TorchStorage& storage : index_.storages) {
    const ZipMember* const member = zip_->find(message(folder, "data/", storage.key));
    if (!member) return message("storage ", data::quoted(storage.key), " is not in the file");
    if (!member->stored) return zip_->read(*member, 0, {});
    if (member->bytes != storage.bytes || member->bytes > source_->size()) {
      return message("storage ", data::quoted(storage.key), " has ", member->bytes, " bytes, its description says ",
                     storage.bytes);
    }
    storages_.push_back(member);
  }
  return "";
}

// How long the pickles are is only known at their end.
std::string TorchCheckpoint::read_stream() {
  for (uint64_t window = first_window;; window *= 8) {
    const std::vector<std::byte> start = source_->read(0, std::min(window, weight_limit::header_bytes));
    ParsedStreamHead head = parse_torch_stream(start);
    if (head.value) {
      index_ = std::move(head.value->index);
      return place_storages(*head.value);
    }
    const bool is_all = start.size() == source_->size() || start.size() >= weight_limit::header_bytes;
    if (!head.cut_off || is_all) return std::move(head.error);
  }
}

// Each storage is its number of elements (8 bytes) and its data.
std::string TorchCheckpoint::place_storages(const TorchStreamHead& head) {
  constexpr uint64_t count_bytes = 8;
  places_.resize(index_.storages.size());
  uint64_t at = head.bytes;
  for (const size_t number : head.order) {
    const TorchStorage& storage = index_.storages[number];
    const uint64_t left = source_->size() - at;
    if (left < count_bytes || left - count_bytes < storage.bytes) {
      return message("storage ", data::quoted(storage.key), " needs ", storage.bytes,
                     " bytes, but the file ends after ", left < count_bytes ? 0 : left - count_bytes,
                     ": it is cut off");
    }
    const std::vector<std::byte> count = source_->read(at, count_bytes);
    uint64_t elements = 0;
    for (size_t i = 0; i < count.size(); ++i) elements |= std::to_integer<uint64_t>(count[i]) << (8 * i);
    if (elements != storage.bytes / static_cast<uint64_t>(size_of(storage.dtype))) {
      return message("storage ", data::quoted(storage.key), " begins with a count of ", elements,
                     " elements, its description says ", storage.bytes, " bytes");
    }
    places_[number] = at + count_bytes;
    at += count_bytes + storage.bytes;
  }
  if (at != source_->size()) return message(source_->size() - at, " bytes behind the last storage belong to none");
  return "";
}

const TorchTensor* TorchCheckpoint::find(std::string_view name) const {
  const auto at =
      std::lower_bound(tensors().begin(), tensors().end(), name,
                       [](const TorchTensor& tensor, std::string_view wanted) { return tensor.name < wanted; });
  return at != tensors().end() && at->name == name ? &*at : nullptr;
}

void TorchCheckpoint::read_bytes(const TorchTensor& tensor, uint64_t offset, std::span<std::byte> target) const {
  std::string why;
  if (zip_) {
    why = zip_->read(*storages_[tensor.storage], offset, target);
  } else if (source_->read_at(places_[tensor.storage] + offset, target) != target.size()) {
    why = "the file was cut while it was open";
  }
  if (!why.empty()) {
    fail(ErrorKind::model, "E-FILE-TRUNCATED", message(path_, ": tensor ", data::quoted(tensor.name), ": ", why));
  }
  if (tensor.dtype != DType::boolean) return;
  if (std::any_of(target.begin(), target.end(), [](std::byte b) { return b > std::byte{1}; })) {
    fail(ErrorKind::model, "E-FILE-BOOL",
         message(path_, ": tensor ", data::quoted(tensor.name), " holds a truth value other than 0 and 1"));
  }
}

Tensor TorchCheckpoint::read(const TorchTensor& tensor) const {
  const int64_t elements = span_of(tensor);
  const uint64_t width = static_cast<uint64_t>(size_of(tensor.dtype));
  const Tensor flat = empty({elements}, tensor.dtype);
  const std::span bytes(static_cast<std::byte*>(flat.storage().data()), static_cast<size_t>(elements) * width);
  if (elements > 0) read_bytes(tensor, tensor.offset * width, bytes);
  const Tensor view(flat.storage(), {tensor.shape, tensor.strides, 0, tensor.dtype});
  if (elements == 0 || view.contiguous()) {
    return {flat.storage(), {tensor.shape, contiguous_strides(tensor.shape), 0, tensor.dtype}};
  }
  return copy_of(view);
}

}  // namespace mixtape::data
