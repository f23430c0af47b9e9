#include "data/safetensors.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "core/factory.h"
#include "data/unicode.h"

namespace mixtape::data {
namespace {
static_assert(std::endian::native == std::endian::little, "tensors are stored as they lie in memory");
constexpr std::string_view metadata_key = "__metadata__";

[[noreturn]] void fail_model(const char* code, const std::string& text) { fail(ErrorKind::model, code, text); }

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text.data(), text.size()));
}

std::string dtype_name(DType dtype) {
  std::string name(name_of(dtype));
  for (char& c : name) c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
  return name;
}

void append_string(std::string& json, std::string_view text) {
  constexpr char digits[] = "0123456789abcdef";
  json += '"';
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      json += {'\\', c};
    } else if (static_cast<unsigned char>(c) < 0x20) {
      json += "\\u00";
      json += {digits[c >> 4], digits[c & 15]};
    } else {
      json += c;
    }
  }
  json += '"';
}

void check_name(const std::string& name) {
  const auto refuse = [&](const char* why) {
    fail_model("E-FILE-NAME", message("write_safetensors: the tensor name ", quoted(name), " ", why));
  };
  if (name.empty()) refuse("is empty");
  if (name == metadata_key) refuse("is reserved: no reader would take it for a tensor");
  if (name.size() > weight_limit::name_bytes) refuse("is longer than 512 bytes");
  if (name.find('\0') != std::string::npos) refuse("holds a NUL");
  if (!is_valid_utf8(name)) refuse("is not UTF-8");
}

/// Puts the tensors into the order of their bytes and checks the names.
void order(NamedTensors& tensors) {
  std::sort(tensors.begin(), tensors.end(), [](const NamedTensor& a, const NamedTensor& b) { return a.name < b.name; });
  for (size_t i = 0; i < tensors.size(); ++i) {
    check_name(tensors[i].name);
    if (i > 0 && tensors[i].name == tensors[i - 1].name) {
      fail_model("E-FILE-NAME", message("write_safetensors: two tensors are named ", quoted(tensors[i].name)));
    }
  }
  std::stable_sort(tensors.begin(), tensors.end(), [](const NamedTensor& a, const NamedTensor& b) {
    return size_of(a.tensor.dtype()) > size_of(b.tensor.dtype());
  });
}

std::string make_header(const NamedTensors& tensors, const Metadata& metadata) {
  std::string json = "{";
  if (!metadata.empty()) {
    append_string(json, metadata_key);
    char separator = '{';
    json += ':';
    for (const auto& [key, value] : metadata) {
      json += std::exchange(separator, ',');
      append_string(json, key);
      json += ':';
      append_string(json, value);
    }
    json += tensors.empty() ? "}" : "},";
  }
  int64_t offset = 0;
  for (const auto& [name, tensor] : tensors) {
    const int64_t end = offset + tensor.numel() * size_of(tensor.dtype());
    append_string(json, name);
    json += message(":{\"dtype\":\"", dtype_name(tensor.dtype()), "\",\"shape\":[");
    for (int axis = 0; axis < tensor.rank(); ++axis) json += message(axis == 0 ? "" : ",", tensor.shape()[axis]);
    json += message("],\"data_offsets\":[", offset, ",", end, "]}");
    if (&tensor != &tensors.back().tensor) json += ',';
    offset = end;
  }
  json += '}';
  json.resize((json.size() + 7) / 8 * 8, ' ');
  return json;
}
}  // namespace

SafeTensorsFile SafeTensorsFile::open(const std::string& path) {
  return open(InputFile(path, ErrorKind::model, "E-FILE-MISSING"));
}

SafeTensorsFile SafeTensorsFile::open(InputFile file) {
  const auto refuse = [&](const std::string& why) {
    fail_model("E-FILE-SAFETENSORS", message(file.path(), ": ", why));
  };
  const uint64_t size = file.size();
  std::vector<std::byte> start(8);
  start.resize(file.read_at(0, start));
  const Parsed<uint64_t> length = parse_header_length(start, size);
  if (!length.value) refuse(length.error);
  start.resize(8 + static_cast<size_t>(*length.value));
  start.resize(file.read_at(0, start));
  Parsed<SafeTensorsHeader> header = parse_safetensors(start, size);
  if (!header.value) refuse(header.error);
  return SafeTensorsFile(std::move(file), std::move(*header.value));
}

const TensorEntry* SafeTensorsFile::find(std::string_view name) const {
  const auto at =
      std::lower_bound(tensors().begin(), tensors().end(), name,
                       [](const TensorEntry& entry, std::string_view wanted) { return entry.name < wanted; });
  return at != tensors().end() && at->name == name ? &*at : nullptr;
}

void SafeTensorsFile::read(const TensorEntry& entry, std::span<std::byte> target) const {
  if (target.size() != entry.bytes) {
    fail(ErrorKind::internal, "E-FILE-TARGET",
         message("read ", quoted(entry.name), ": ", entry.bytes, " bytes into memory of ", target.size()));
  }
  if (const size_t got = file_.read_at(entry.offset, target); got != target.size()) {
    fail_model("E-FILE-TRUNCATED", message(path(), ": tensor ", quoted(entry.name), " has ", got, " of its ",
                                           entry.bytes, " bytes; the file was cut while it was open"));
  }
  if (entry.dtype != DType::boolean) return;
  if (std::any_of(target.begin(), target.end(), [](std::byte b) { return b > std::byte{1}; })) {
    fail_model("E-FILE-BOOL",
               message(path(), ": tensor ", quoted(entry.name), " holds a truth value other than 0 and 1"));
  }
}

Tensor SafeTensorsFile::read(const TensorEntry& entry) const {
  const Tensor tensor = empty(entry.shape, entry.dtype);
  read(entry, std::span(static_cast<std::byte*>(tensor.storage().data()), static_cast<size_t>(entry.bytes)));
  return tensor;
}

Metadata default_metadata() { return {{"format", "pt"}}; }

void write_safetensors(const std::function<void(std::span<const std::byte>)>& sink, NamedTensors tensors,
                       const Metadata& metadata) {
  order(tensors);
  const std::string header = make_header(tensors, metadata);
  if (header.size() > weight_limit::header_bytes || tensors.size() > weight_limit::tensors) {
    fail_model("E-FILE-SAFETENSORS",
               message("write_safetensors: ", tensors.size(), " tensors with a header of ", header.size(),
                       " bytes are more than a reader takes; write several files"));
  }
  const uint64_t length = header.size();
  sink(std::as_bytes(std::span(&length, 1)));
  sink(bytes_of(header));
  for (const auto& [name, tensor] : tensors) {
    const Tensor plain = to(tensor.contiguous() ? tensor : copy_of(tensor), {});
    const size_t bytes = static_cast<size_t>(plain.numel() * size_of(plain.dtype()));
    if (bytes > 0) sink(std::span(static_cast<const std::byte*>(plain.view().data), bytes));
  }
}

void write_safetensors(const std::string& path, NamedTensors tensors, const Metadata& metadata) {
  OutputFile file(path);
  write_safetensors([&file](std::span<const std::byte> bytes) { file.write(bytes); }, std::move(tensors), metadata);
  file.commit();
}

}  // namespace mixtape::data
