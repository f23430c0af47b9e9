#include "data/torch_index.h"

#include <algorithm>
#include <limits>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "core/error.h"
#include "data/file.h"
#include "data/pickle.h"
#include "data/unicode.h"

namespace mixtape::data {
namespace {

using Kind = PickleValue::Kind;
constexpr int max_depth = 64;
constexpr size_t max_visits = size_t{1} << 20;

enum Global : uint64_t {
  f32,
  f16,
  bf16,
  f64,
  i64,
  i32,
  u8,
  boolean,  // up to here the storages, in the order of DType
  rebuild_tensor,
  rebuild_tensor_v2,
  rebuild_parameter,
  size,
};
constexpr std::string_view globals[] = {
    "torch.FloatStorage",
    "torch.HalfStorage",
    "torch.BFloat16Storage",
    "torch.DoubleStorage",
    "torch.LongStorage",
    "torch.IntStorage",
    "torch.ByteStorage",
    "torch.BoolStorage",
    "torch._utils._rebuild_tensor",
    "torch._utils._rebuild_tensor_v2",
    "torch._utils._rebuild_parameter",
    "torch.Size",
};

/// Walks an unpickled object and collects its tensors.
class Collector {
 public:
  explicit Collector(const Pickle& pickle) : pickle_(pickle) {}
  Parsed<TorchIndex> run();

 private:
  using Items = std::span<const PickleValue>;

  bool refuse(const std::string& why) {
    if (error_.empty()) error_ = name_.empty() ? why : message("tensor ", quoted(name_), ": ", why);
    return false;
  }
  bool visit(const PickleValue& value, int depth);
  bool visit_member(std::string_view key, const PickleValue& value, int depth);
  bool visit_dict(Items items, int depth);
  bool visit_call(Items items, int depth);
  bool tensor(Items arguments);
  bool sizes(const PickleValue& value, std::vector<uint64_t>& out);
  bool storage(const PickleValue& value, size_t& out);
  bool check_extent(const TorchTensor& tensor, const TorchStorage& storage);
  bool check_names();

  const Pickle& pickle_;
  std::string name_, error_;
  size_t visits_ = 0;
  TorchIndex index_;
  std::map<std::string, size_t, std::less<>> by_key_;
};

bool is_natural(const PickleValue& value) { return value.kind == Kind::integer && value.integer() >= 0; }

bool Collector::visit(const PickleValue& value, int depth) {
  if (depth > max_depth) return refuse("the object nests deeper than 64");
  if (++visits_ > max_visits) return refuse("more values than any weight file needs");
  switch (value.kind) {
    case Kind::dict: return visit_dict(pickle_.items(value), depth);
    case Kind::call: return visit_call(pickle_.items(value), depth);
    case Kind::list:
    case Kind::tuple: {
      int64_t number = 0;
      for (const PickleValue& item : pickle_.items(value)) {
        if (!visit_member(message(number++), item, depth)) return false;
      }
      return true;
    }
    case Kind::global:
    case Kind::persistent: return refuse("a storage or a class stands where a tensor or a plain value is due");
    default: return true;
  }
}

bool Collector::visit_member(std::string_view key, const PickleValue& value, int depth) {
  const size_t length = name_.size();
  if (key.size() + length + 1 > weight_limit::name_bytes) return refuse("a name longer than 512 bytes");
  if (!name_.empty()) name_ += '.';
  name_ += key;
  if (!visit(value, depth + 1)) return false;
  name_.resize(length);
  return true;
}

bool Collector::visit_dict(Items items, int depth) {
  for (size_t i = 0; i < items.size(); i += 2) {
    const PickleValue& key = items[i];
    if (key.kind != Kind::text && key.kind != Kind::integer) {
      return refuse("a dict's key is neither a text nor an integer");
    }
    const std::string name = key.kind == Kind::text ? std::string(pickle_.text(key)) : message(key.integer());
    if (!is_valid_utf8(name) || name.find('\0') != std::string::npos)
      return refuse("a name that is not UTF-8 or holds a NUL");
    if (!visit_member(name, items[i + 1], depth)) return false;
  }
  return true;
}

bool Collector::visit_call(Items items, int depth) {
  const Items arguments = items.subspan(1);
  switch (items[0].place) {
    case rebuild_tensor:
    case rebuild_tensor_v2: return tensor(arguments);
    case rebuild_parameter:  // (tensor, requires_grad, hooks)
      if (arguments.empty() || arguments[0].kind != Kind::call) return refuse("a parameter without a tensor");
      return visit(arguments[0], depth + 1);
    case size: return true;
    default: return refuse("a storage's class is called");
  }
}

// (storage, offset, sizes, strides), and since v2 (…, requires_grad, hooks[, metadata]).
bool Collector::tensor(Items arguments) {
  if (name_.empty()) return refuse("the file holds a tensor without a name; expected a dict of tensors");
  if (arguments.size() < 4 || arguments.size() > 7) return refuse("rebuilt from a wrong number of values");
  if (arguments.size() == 7) {
    const bool plain =
        arguments[6].kind == Kind::none || (arguments[6].kind == Kind::dict && pickle_.items(arguments[6]).empty());
    if (!plain) return refuse("has metadata (a negated or conjugated view), which are not supported");
  }
  if (index_.tensors.size() >= weight_limit::tensors) return refuse("more than 65536 tensors");
  TorchTensor out;
  std::vector<uint64_t> shape, strides;
  if (!storage(arguments[0], out.storage)) return false;
  if (!is_natural(arguments[1])) return refuse("its offset is no natural number");
  if (!sizes(arguments[2], shape) || !sizes(arguments[3], strides)) return false;
  if (shape.size() != strides.size()) return refuse("has another number of sizes than of strides");
  out.name = name_;
  out.dtype = index_.storages[out.storage].dtype;
  out.offset = arguments[1].place;
  const std::optional<uint64_t> bytes = byte_count(shape, out.dtype);
  if (!bytes) return refuse("the shape's product does not fit into 63 bits");
  out.bytes = *bytes;
  for (size_t axis = 0; axis < shape.size(); ++axis) {
    out.shape.push_back(static_cast<int64_t>(shape[axis]));
    out.strides.push_back(static_cast<int64_t>(strides[axis]));
  }
  if (!check_extent(out, index_.storages[out.storage])) return false;
  index_.tensors.push_back(std::move(out));
  return true;
}

bool Collector::sizes(const PickleValue& value, std::vector<uint64_t>& out) {
  PickleValue list = value;
  if (list.kind == Kind::call && pickle_.items(list)[0].place == size && pickle_.items(list).size() == 2) {
    list = pickle_.items(list)[1];
  }
  if (list.kind != Kind::tuple && list.kind != Kind::list) return refuse("its sizes or strides are no tuple");
  const Items items = pickle_.items(list);
  if (items.size() > static_cast<size_t>(max_rank)) return refuse("has more than 8 dimensions");
  for (const PickleValue& item : items) {
    if (!is_natural(item)) return refuse("a size or stride is no natural number");
    out.push_back(item.place);
  }
  return true;
}

// ("storage", class, key, location, number of elements[, view]).
bool Collector::storage(const PickleValue& value, size_t& out) {
  if (value.kind != Kind::persistent) return refuse("its storage is something else");
  const Items items = pickle_.items(value);
  const bool known = (items.size() == 5 || (items.size() == 6 && items[5].kind == Kind::none)) &&
                     items[0].kind == Kind::text && pickle_.text(items[0]) == "storage" &&
                     items[1].kind == Kind::global && items[1].place <= boolean && items[2].kind == Kind::text &&
                     is_natural(items[4]);
  if (!known) return refuse("its storage is described in an unknown way");
  const std::string_view key = pickle_.text(items[2]);
  const DType dtype = static_cast<DType>(items[1].place);
  if (key.empty() || key.size() > weight_limit::name_bytes) return refuse("its storage has no usable key");
  const std::optional<uint64_t> bytes = byte_count(std::vector<uint64_t>{items[4].place}, dtype);
  if (!bytes) return refuse("its storage's size does not fit into 63 bits");
  const auto [entry, fresh] = by_key_.try_emplace(std::string(key), index_.storages.size());
  out = entry->second;
  if (fresh) {
    index_.storages.push_back({std::string(key), dtype, *bytes});
    return true;
  }
  const TorchStorage& first = index_.storages[out];
  return (first.dtype == dtype && first.bytes == *bytes) ||
         refuse(message("storage ", quoted(key), " has two sizes or dtypes"));
}

bool Collector::check_extent(const TorchTensor& tensor, const TorchStorage& storage) {
  const uint64_t available = storage.bytes / static_cast<uint64_t>(size_of(storage.dtype));
  const auto past_end = [&] {
    return refuse(message("shape ", tensor.shape.str(), " with strides ", tensor.strides.str(), " from element ",
                          tensor.offset, " on goes past the ", available, " elements of storage ",
                          quoted(storage.key)));
  };
  if (tensor.bytes == 0) return tensor.offset <= available || past_end();
  if (tensor.offset >= available) return past_end();
  uint64_t left = available - tensor.offset - 1;  // that the last element may lie behind the first
  for (int axis = 0; axis < tensor.shape.rank(); ++axis) {
    const uint64_t steps = static_cast<uint64_t>(tensor.shape[axis]) - 1;
    const uint64_t stride = static_cast<uint64_t>(tensor.strides[axis]);
    if (steps != 0 && stride > left / steps) return past_end();
    left -= steps * stride;
  }
  if (tensor.bytes > storage.bytes) {
    return refuse(message("stride 0 makes ", tensor.bytes, " bytes out of a storage of ", storage.bytes,
                          "; save it as a tensor of its own (contiguous())"));
  }
  return true;
}

bool Collector::check_names() {
  std::sort(index_.tensors.begin(), index_.tensors.end(),
            [](const TorchTensor& a, const TorchTensor& b) { return a.name < b.name; });
  const auto twin = std::adjacent_find(index_.tensors.begin(), index_.tensors.end(),
                                       [](const TorchTensor& a, const TorchTensor& b) { return a.name == b.name; });
  return twin == index_.tensors.end() || refuse(message("two tensors are named ", quoted(twin->name)));
}

Parsed<TorchIndex> Collector::run() {
  if (!visit(pickle_.root, 0) || !check_names()) return {{}, std::move(error_)};
  return {std::move(index_), {}};
}

/// Reads the five pickles of a stream, one after the other.
class StreamReader {
 public:
  explicit StreamReader(std::span<const std::byte> bytes) : bytes_(bytes) {}
  ParsedStreamHead run();

 private:
  bool refuse(std::string why) {
    if (error_.empty()) error_ = std::move(why);
    return false;
  }
  bool next(Pickle& out);
  bool check_start();
  bool check_machine(const Pickle& machine);
  bool order(const Pickle& keys);

  std::span<const std::byte> bytes_;
  size_t at_ = 0;
  bool cut_off_ = false;
  std::string error_;
  TorchStreamHead head_;
};

bool StreamReader::next(Pickle& out) {
  ParsedPickle parsed = parse_pickle(bytes_.subspan(at_), globals);
  cut_off_ = parsed.cut_off;
  if (!parsed.value) return refuse(std::move(parsed.error));
  out = std::move(*parsed.value);
  at_ += out.bytes.size();
  return true;
}

bool StreamReader::check_start() {
  constexpr std::string_view magic = "\x6C\xFC\x9C\x46\xF9\x20\x6A\xA8\x50\x19";  // 0x1950a86a20f9469cfc6c
  Pickle number, protocol;
  if (!next(number)) return false;
  if (number.root.kind != Kind::big_integer || number.text(number.root) != magic) {
    return refuse("does not begin with PyTorch's magic number");
  }
  if (!next(protocol)) return false;
  if (protocol.root.kind != Kind::integer || protocol.root.integer() != 1001) {
    return refuse("is of an unknown protocol; expected 1001");
  }
  return true;
}

bool StreamReader::check_machine(const Pickle& machine) {
  if (machine.root.kind != Kind::dict) return refuse("the description of the machine is no dict");
  const std::span<const PickleValue> items = machine.items(machine.root);
  for (size_t i = 0; i < items.size(); i += 2) {
    const bool is_order = items[i].kind == Kind::text && machine.text(items[i]) == "little_endian";
    if (is_order && (items[i + 1].kind != Kind::boolean || items[i + 1].place != 1)) {
      return refuse("was written on a big-endian machine, which is not supported");
    }
  }
  return true;
}

bool StreamReader::order(const Pickle& keys) {
  if (keys.root.kind != Kind::list) return refuse("the keys of the storages are no list");
  std::map<std::string_view, size_t> wanted;
  for (size_t i = 0; i < head_.index.storages.size(); ++i) wanted.emplace(head_.index.storages[i].key, i);
  for (const PickleValue& item : keys.items(keys.root)) {
    const auto found = item.kind == Kind::text ? wanted.find(keys.text(item)) : wanted.end();
    if (found == wanted.end()) return refuse("lists a storage that no tensor shows, or one twice");
    head_.order.push_back(found->second);
    wanted.erase(found);
  }
  return wanted.empty() || refuse(message("storage ", quoted(wanted.begin()->first), " is not in the file"));
}

ParsedStreamHead StreamReader::run() {
  Pickle machine, object, keys;
  if (!check_start() || !next(machine) || !check_machine(machine) || !next(object)) return {{{}, error_}, cut_off_};
  Parsed<TorchIndex> index = Collector(object).run();
  if (!index.value) return {{{}, std::move(index.error)}, false};
  head_.index = std::move(*index.value);
  object = Pickle{};
  if (!next(keys) || !order(keys)) return {{{}, error_}, cut_off_};
  head_.bytes = at_;
  return {{std::move(head_), {}}, false};
}

}  // namespace

Parsed<TorchIndex> parse_torch_pickle(std::span<const std::byte> pickle) {
  const ParsedPickle parsed = parse_pickle(pickle, globals);
  if (!parsed.value) return {{}, parsed.error};
  if (parsed.value->bytes.size() != pickle.size()) return {{}, "bytes follow the pickle's end"};
  return Collector(*parsed.value).run();
}

ParsedStreamHead parse_torch_stream(std::span<const std::byte> file_start) { return StreamReader(file_start).run(); }

}  // namespace mixtape::data
