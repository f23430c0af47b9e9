// PyTorch checkpoints written by the tests themselves: a pickle, a zip and a stream of storages, byte by byte, so that
// any of them can be made wrong.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace mixtape::tests {

/// A number's little-endian bytes.
inline std::string little(uint64_t value, size_t bytes) {
  std::string out(bytes, '\0');
  std::memcpy(out.data(), &value, bytes);
  return out;
}

/// The values' bytes, as they lie in memory.
template <class T>
std::string bytes_of(const std::vector<T>& values) {
  std::string out(values.size() * sizeof(T), '\0');
  if (!values.empty()) std::memcpy(out.data(), values.data(), out.size());
  return out;
}

// --- pickles: each function gives the opcodes that leave one value on the stack ---
inline std::string text_op(std::string_view text) { return "X" + little(text.size(), 4) + std::string(text); }
inline std::string int_op(int64_t value) { return "\x8A\x08" + little(static_cast<uint64_t>(value), 8); }
inline std::string global_op(const std::string& module, const std::string& name) {
  return "c" + module + "\n" + name + "\n";
}
inline std::string tuple_op(const std::vector<std::string>& items) {
  std::string out = "(";
  for (const std::string& item : items) out += item;
  return out + "t";
}
inline std::string tuple_op(const std::vector<int64_t>& items) {
  std::vector<std::string> ops;
  for (const int64_t item : items) ops.push_back(int_op(item));
  return tuple_op(ops);
}
inline std::string call_op(const std::string& global, const std::vector<std::string>& arguments) {
  return global + tuple_op(arguments) + "R";
}
using Member = std::pair<std::string, std::string>;
inline std::string dict_op(const std::vector<Member>& members) {
  std::string out = "}(";
  for (const auto& [key, value] : members) out += text_op(key) + value;
  return out + "u";
}
inline std::string pickle_of(const std::string& ops) { return "\x80\x02" + ops + "."; }

/// A tensor as torch.save describes one.
struct TorchSpec {
  std::string type = "FloatStorage", key = "0";
  int64_t storage_elements = 4;
  int64_t offset = 0;
  std::vector<int64_t> shape = {2, 2}, strides = {2, 1};
};
inline std::string tensor_op(const TorchSpec& spec, const std::string& view = "") {
  const std::string storage = "(" + text_op("storage") + global_op("torch", spec.type) + text_op(spec.key) +
                              text_op("cpu") + int_op(spec.storage_elements) + view + "tQ";
  return call_op(global_op("torch._utils", "_rebuild_tensor_v2"),
                 {storage, int_op(spec.offset), tuple_op(spec.shape), tuple_op(spec.strides), "\x89",
                  call_op(global_op("collections", "OrderedDict"), {})});
}

// --- zips ---
inline uint32_t crc32_of(std::string_view bytes) {
  uint32_t crc = ~0U;
  for (const char c : bytes) {
    crc ^= static_cast<unsigned char>(c);
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? 0xEDB88320U : 0U);
  }
  return ~crc;
}

/// Members stored without compression, in this order. `method` goes into the headers alone.
inline std::string zip_of(const std::vector<Member>& members, int method = 0) {
  std::string file, directory;
  for (const auto& [name, bytes] : members) {
    const std::string common = little(20, 2) + little(0, 2) + little(static_cast<uint64_t>(method), 2) + little(0, 4) +
                               little(crc32_of(bytes), 4) + little(bytes.size(), 4) + little(bytes.size(), 4) +
                               little(name.size(), 2) + little(0, 2);
    directory += "PK\x01\x02" + little(20, 2) + common + little(0, 2) + little(0, 2) + little(0, 2) + little(0, 4) +
                 little(file.size(), 4) + name;
    file += "PK\x03\x04" + common + name + bytes;
  }
  const std::string count = little(members.size(), 2);
  return file + directory + "PK\x05\x06" + little(0, 4) + count + count + little(directory.size(), 4) +
         little(file.size(), 4) + little(0, 2);
}

/// A checkpoint as PyTorch writes it since 1.6.
inline std::string torch_zip(const std::string& object, const std::vector<Member>& storages,
                             const std::vector<Member>& more = {}) {
  std::vector<Member> members = {{"archive/data.pkl", pickle_of(object)}};
  for (const auto& [key, bytes] : storages) members.push_back({"archive/data/" + key, bytes});
  for (const Member& member : more) members.push_back(member);
  members.push_back({"archive/version", "3\n"});
  return zip_of(members);
}

/// A storage of the older form: its key, its elements' size, its bytes.
struct StreamStorage {
  std::string key;
  size_t width = 4;
  std::string bytes = {};
};

/// The pickles before the object, and the key list after it, of the form before 1.6.
inline std::string stream_start(bool little_endian = true) {
  const std::string magic = "\x8A\x0A\x6C\xFC\x9C\x46\xF9\x20\x6A\xA8\x50\x19";
  const std::string machine = dict_op({{"protocol_version", "M" + little(1001, 2)},
                                       {"little_endian", little_endian ? "\x88" : "\x89"},
                                       {"type_sizes", dict_op({{"int", "K\x04"}})}});
  return pickle_of(magic) + pickle_of("M" + little(1001, 2)) + pickle_of(machine);
}
inline std::string torch_stream(const std::string& object, const std::vector<StreamStorage>& storages) {
  std::string keys = "](", data;
  for (const StreamStorage& storage : storages) {
    keys += text_op(storage.key);
    data += little(storage.bytes.size() / storage.width, 8) + storage.bytes;
  }
  return stream_start() + pickle_of(object) + pickle_of(keys + "e") + data;
}

}  // namespace mixtape::tests
