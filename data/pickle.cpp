#include "data/pickle.h"

#include <algorithm>
#include <utility>

#include "core/error.h"
#include "data/file.h"

namespace mixtape::data {
namespace {

using Value = PickleValue;
using Kind = PickleValue::Kind;
using Values = std::vector<PickleValue>;
constexpr std::string_view ordered_dict = "collections.OrderedDict";

/// Opcodes that others write and that are refused here, by name: a message with it can be looked up.
std::string_view name_of_opcode(unsigned code) {
  constexpr std::pair<unsigned, std::string_view> names[] = {
      {'i', " (INST)"},  {'o', " (OBJ)"},    {0x81, " (NEWOBJ)"}, {0x82, " (EXT1)"},      {0x83, " (EXT2)"},
      {0x84, " (EXT4)"}, {0x8F, " (a set)"}, {0x91, " (a set)"},  {0x92, " (NEWOBJ_EX)"}, {'P', " (PERSID)"},
      {'F', " (FLOAT)"}, {'I', " (INT)"},    {'L', " (LONG)"},    {'S', " (STRING)"},     {'V', " (UNICODE)"},
  };
  const auto found = std::find_if(std::begin(names), std::end(names), [&](const auto& n) { return n.first == code; });
  return found == std::end(names) ? std::string_view() : found->second;
}

std::string hexadecimal(unsigned code) {
  constexpr char digits[] = "0123456789abcdef";
  return {'0', 'x', digits[code >> 4 & 15], digits[code & 15]};
}

class Machine {
 public:
  Machine(std::span<const std::byte> bytes, std::span<const std::string_view> globals)
      : bytes_(bytes), globals_(globals) {}
  ParsedPickle run();

 private:
  bool step(unsigned code);
  bool step_text(unsigned code);
  bool step_container(unsigned code);
  bool step_rest(unsigned code);

  bool refuse(const std::string& why);
  bool skip(uint64_t count);
  bool number(size_t bytes, uint64_t& out);
  bool byte_run(size_t length_bytes, Kind kind);
  bool long_integer();
  bool line(std::string_view& out);

  bool has_value() const { return stack_.size() > (marks_.empty() ? 0 : marks_.back()); }
  bool push(const Value& value);
  bool push_integer(size_t bytes);
  bool push_object(Kind kind, Values items);
  bool pop(Value& out);
  bool pop_to_mark(Values& out);
  bool tuple_of(size_t count);
  bool dict_of(Values pairs);
  bool extend(Kind kind, const Values& items);
  bool extend_by(Kind kind, size_t count);
  bool memoize(uint64_t place);
  bool recall(uint64_t place);
  bool global(const std::string& name);
  bool stack_global();
  bool reduce();
  bool ordered_dict_of(std::span<const Value> arguments);
  bool build();
  bool persistent();

  std::span<const std::byte> bytes_;
  std::span<const std::string_view> globals_;
  size_t at_ = 0, opcode_at_ = 0, items_ = 0;
  bool stopped_ = false, cut_off_ = false;
  std::string error_;
  Values stack_, memo_;
  std::vector<size_t> marks_;  // heights of the stack
  std::vector<Values> objects_;
  Value root_;
};

bool Machine::refuse(const std::string& why) {
  if (error_.empty()) error_ = message("pickle byte ", opcode_at_, ": ", why);
  return false;
}

bool Machine::skip(uint64_t count) {
  if (count > bytes_.size() - at_) {
    cut_off_ = true;
    return refuse("the pickle is cut off");
  }
  at_ += static_cast<size_t>(count);
  return true;
}

bool Machine::number(size_t bytes, uint64_t& out) {
  const size_t begin = at_;
  if (!skip(bytes)) return false;
  out = 0;
  for (size_t i = 0; i < bytes; ++i) out |= std::to_integer<uint64_t>(bytes_[begin + i]) << (8 * i);
  return true;
}

bool Machine::byte_run(size_t length_bytes, Kind kind) {
  uint64_t length = 0;
  if (!number(length_bytes, length)) return false;
  if (length > weight_limit::header_bytes) return refuse("a text longer than any file here may have");
  const size_t begin = at_;
  return skip(length) && push({kind, static_cast<uint32_t>(length), begin});
}

// Two's complement, as few bytes as it takes; the magic number of a file has ten.
bool Machine::long_integer() {
  const size_t before = at_;
  uint64_t length = 0;
  if (!number(1, length)) return false;
  if (length > 8) {
    at_ = before;
    return byte_run(1, Kind::big_integer);
  }
  uint64_t value = 0;
  if (!number(length, value)) return false;
  const bool negative = length > 0 && (value >> (8 * length - 1)) != 0;
  if (negative && length < 8) value |= ~uint64_t{0} << (8 * length);
  return push({Kind::integer, 0, value});
}

bool Machine::line(std::string_view& out) {
  const std::string_view rest(reinterpret_cast<const char*>(bytes_.data()) + at_, bytes_.size() - at_);
  const std::string_view near = rest.substr(0, weight_limit::name_bytes + 1);
  const size_t feed = near.find('\n');
  if (feed == std::string_view::npos) {
    if (near.size() > weight_limit::name_bytes) return refuse("a name of more than 512 bytes");
    return skip(near.size() + 1);  // which says that the pickle is cut off
  }
  out = near.substr(0, feed);
  return skip(feed + 1);
}

bool Machine::push(const Value& value) {
  if (stack_.size() >= pickle_limit::stack) return refuse("more values on the stack than any weight file needs");
  stack_.push_back(value);
  return true;
}

bool Machine::push_integer(size_t bytes) {
  uint64_t value = 0;
  if (!number(bytes, value)) return false;
  if (bytes == 4) value = static_cast<uint64_t>(static_cast<int64_t>(static_cast<int32_t>(value)));  // the signed one
  return push({Kind::integer, 0, value});
}

bool Machine::push_object(Kind kind, Values items) {
  items_ += items.size();
  if (objects_.size() >= pickle_limit::objects || items_ > pickle_limit::items) {
    return refuse("more objects than any weight file needs");
  }
  objects_.push_back(std::move(items));
  return push({kind, 0, objects_.size() - 1});
}

bool Machine::pop(Value& out) {
  if (!has_value()) return refuse("the stack is empty where a value is due");
  out = stack_.back();
  stack_.pop_back();
  return true;
}

bool Machine::pop_to_mark(Values& out) {
  if (marks_.empty()) return refuse("no mark is open");
  const auto begin = stack_.begin() + static_cast<std::ptrdiff_t>(marks_.back());
  out.assign(begin, stack_.end());
  stack_.erase(begin, stack_.end());
  marks_.pop_back();
  return true;
}

bool Machine::tuple_of(size_t count) {
  Values items(count);
  for (size_t i = count; i-- > 0;) {
    if (!pop(items[i])) return false;
  }
  return push_object(Kind::tuple, std::move(items));
}

bool Machine::dict_of(Values pairs) {
  if (pairs.size() % 2 != 0) return refuse("a key without a value");
  return push_object(Kind::dict, std::move(pairs));
}

// The object that grows stays on the stack.
bool Machine::extend(Kind kind, const Values& items) {
  if (!has_value() || stack_.back().kind != kind) {
    return refuse(kind == Kind::dict ? "only a dict takes keys and values" : "only a list takes items");
  }
  if (kind == Kind::dict && items.size() % 2 != 0) return refuse("a key without a value");
  items_ += items.size();
  if (items_ > pickle_limit::items) return refuse("more objects than any weight file needs");
  Values& target = objects_[stack_.back().place];
  target.insert(target.end(), items.begin(), items.end());
  return true;
}

bool Machine::extend_by(Kind kind, size_t count) {
  Values items(count);
  for (size_t i = count; i-- > 0;) {
    if (!pop(items[i])) return false;
  }
  return extend(kind, items);
}

bool Machine::memoize(uint64_t place) {
  if (!has_value()) return refuse("the stack is empty where a value is due");
  if (place >= pickle_limit::memo) return refuse("a memo place that no weight file needs");
  if (memo_.size() <= place) memo_.resize(static_cast<size_t>(place) + 1);
  memo_[static_cast<size_t>(place)] = stack_.back();
  return true;
}

bool Machine::recall(uint64_t place) {
  if (place >= memo_.size() || memo_[static_cast<size_t>(place)].kind == Kind::absent) {
    return refuse("a memo place that was never filled");
  }
  return push(memo_[static_cast<size_t>(place)]);
}

bool Machine::global(const std::string& name) {
  if (name == ordered_dict) return push({Kind::global, 0, globals_.size()});
  const auto found = std::find(globals_.begin(), globals_.end(), name);
  if (found == globals_.end()) {
    return refuse(message("names the global ", quoted(name), ", which no weight file needs; nothing was executed"));
  }
  return push({Kind::global, 0, static_cast<uint64_t>(found - globals_.begin())});
}

bool Machine::stack_global() {
  Value name, module;
  if (!pop(name) || !pop(module)) return false;
  if (name.kind != Kind::text || module.kind != Kind::text) return refuse("a global that is not named by texts");
  if (name.size > weight_limit::name_bytes || module.size > weight_limit::name_bytes) {
    return refuse("a name of more than 512 bytes");
  }
  const Pickle texts{bytes_, {}, {}};
  return global(message(texts.text(module), ".", texts.text(name)));
}

bool Machine::reduce() {
  Value arguments, callee;
  if (!pop(arguments) || !pop(callee)) return false;
  if (callee.kind != Kind::global || arguments.kind != Kind::tuple) {
    return refuse("a call of something other than a known global");
  }
  const Values& given = objects_[arguments.place];
  if (callee.place == globals_.size()) return ordered_dict_of(given);
  Values items{callee};
  items.insert(items.end(), given.begin(), given.end());
  return push_object(Kind::call, std::move(items));
}

// Empty, or made from a list of pairs, as Python 2 wrote it.
bool Machine::ordered_dict_of(std::span<const Value> arguments) {
  if (arguments.empty()) return push_object(Kind::dict, {});
  if (arguments.size() != 1 || arguments[0].kind != Kind::list) return refuse("an OrderedDict of something odd");
  Values pairs;
  for (const Value& pair : objects_[arguments[0].place]) {
    const bool is_pair = (pair.kind == Kind::list || pair.kind == Kind::tuple) && objects_[pair.place].size() == 2;
    if (!is_pair) return refuse("an OrderedDict of something odd");
    pairs.insert(pairs.end(), objects_[pair.place].begin(), objects_[pair.place].end());
  }
  return push_object(Kind::dict, std::move(pairs));
}

// Attributes of a dict ("_metadata") say nothing about tensors: they are dropped.
bool Machine::build() {
  Value state;
  if (!pop(state)) return false;
  if (!has_value() || stack_.back().kind != Kind::dict) {
    return refuse("attributes of something other than a dict (BUILD)");
  }
  return true;
}

bool Machine::persistent() {
  Value identifier;
  if (!pop(identifier)) return false;
  if (identifier.kind != Kind::tuple) return refuse("a persistent object whose identifier is no tuple");
  Values copy = objects_[identifier.place];
  return push_object(Kind::persistent, std::move(copy));
}

bool Machine::step(unsigned code) {
  switch (code) {
    case 'N': return push({Kind::none, 0, 0});
    case 0x88: return push({Kind::boolean, 0, 1});
    case 0x89: return push({Kind::boolean, 0, 0});
    case 'J': return push_integer(4);
    case 'K': return push_integer(1);
    case 'M': return push_integer(2);
    case 0x8A: return long_integer();
    case 'G': return skip(8) && push({Kind::real, 0, 0});
    default: return step_text(code);
  }
}

bool Machine::step_text(unsigned code) {
  switch (code) {
    case 'U':
    case 'C':
    case 0x8C: return byte_run(1, Kind::text);
    case 'T':
    case 'B':
    case 'X': return byte_run(4, Kind::text);
    case 0x8D:
    case 0x8E: return byte_run(8, Kind::text);
    default: return step_container(code);
  }
}

bool Machine::step_container(unsigned code) {
  Values items;
  switch (code) {
    case '(':
      if (marks_.size() >= pickle_limit::marks) return refuse("more than 256 open marks");
      marks_.push_back(stack_.size());
      return true;
    case '}': return push_object(Kind::dict, {});
    case ']': return push_object(Kind::list, {});
    case ')': return push_object(Kind::tuple, {});
    case 0x85: return tuple_of(1);
    case 0x86: return tuple_of(2);
    case 0x87: return tuple_of(3);
    case 't': return pop_to_mark(items) && push_object(Kind::tuple, std::move(items));
    case 'l': return pop_to_mark(items) && push_object(Kind::list, std::move(items));
    case 'd': return pop_to_mark(items) && dict_of(std::move(items));
    case 'a': return extend_by(Kind::list, 1);
    case 's': return extend_by(Kind::dict, 2);
    case 'e': return pop_to_mark(items) && extend(Kind::list, items);
    case 'u': return pop_to_mark(items) && extend(Kind::dict, items);
    default: return step_rest(code);
  }
}

bool Machine::step_rest(unsigned code) {
  uint64_t place = 0;
  Value dropped;
  Values many;
  std::string_view module, name;
  switch (code) {
    case '0': return pop(dropped);
    case '1': return pop_to_mark(many);
    case 'q': return number(1, place) && memoize(place);
    case 'r': return number(4, place) && memoize(place);
    case 0x94: return memoize(memo_.size());
    case 'h': return number(1, place) && recall(place);
    case 'j': return number(4, place) && recall(place);
    case 'c': return line(module) && line(name) && global(message(module, ".", name));
    case 0x93: return stack_global();
    case 'R': return reduce();
    case 'b': return build();
    case 'Q': return persistent();
    case 0x95: return skip(8);  // the length of a frame
    case '.':
      stopped_ = true;
      if (!pop(root_)) return false;
      return (stack_.empty() && marks_.empty()) || refuse("the pickle ends with values left over");
    default:
      return refuse(message("the opcode ", hexadecimal(code), name_of_opcode(code),
                            " is none that weight files need; nothing was executed"));
  }
}

ParsedPickle Machine::run() {
  uint64_t code = 0, protocol = 0;
  if (number(1, code) && (code != 0x80 || (number(1, protocol) && (protocol < 2 || protocol > 5)))) {
    (void)refuse("this is no pickle of protocol 2 to 5");
  }
  while (error_.empty() && !stopped_) {
    opcode_at_ = at_;
    if (number(1, code)) (void)step(static_cast<unsigned>(code));
  }
  if (!error_.empty()) return {{{}, std::move(error_)}, cut_off_};
  return {{Pickle{bytes_.first(at_), std::move(objects_), root_}, {}}, false};
}

}  // namespace

ParsedPickle parse_pickle(std::span<const std::byte> bytes, std::span<const std::string_view> globals) {
  return Machine(bytes, globals).run();
}

}  // namespace mixtape::data
