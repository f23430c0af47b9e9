// Pickles, as far as weight files need them. The machine here runs nothing: a global is a name, and a call of one is
// kept as a list of what stands in it. Any opcode or global outside its list ends the reading.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "data/parsed.h"

namespace mixtape::data {

/// What a pickle may need at most. Together they keep the memory of the machine below 64 MB.
namespace pickle_limit {
inline constexpr size_t stack = size_t{1} << 18;
inline constexpr size_t marks = 256;
inline constexpr size_t memo = size_t{9} << 16;
inline constexpr size_t objects = size_t{1} << 19;
inline constexpr size_t items = size_t{3} << 19;  ///< of all objects together
}  // namespace pickle_limit

struct PickleValue {
  enum class Kind : uint8_t {
    absent,
    none,
    boolean,
    integer,
    big_integer,  ///< of more than 64 bits: its bytes, little-endian
    real,         ///< its value is not kept
    text,         ///< or bytes
    global,       ///< `place` in the list of allowed ones
    tuple,
    list,
    dict,        ///< keys and values in turn
    call,        ///< the global, then its arguments
    persistent,  ///< what the identifier (a tuple) holds
  };
  Kind kind = Kind::absent;
  uint32_t size = 0;   ///< bytes of a text or big integer
  uint64_t place = 0;  ///< of those bytes in the pickle; or the number of an object; or the integer itself

  int64_t integer() const { return static_cast<int64_t>(place); }
  bool is_object() const { return kind >= Kind::tuple; }
};

struct Pickle {
  std::span<const std::byte> bytes;  ///< of the pickle, up to its end; texts stand in them
  std::vector<std::vector<PickleValue>> objects;
  PickleValue root;

  std::string_view text(const PickleValue& value) const {
    return {reinterpret_cast<const char*>(bytes.data()) + value.place, value.size};
  }
  std::span<const PickleValue> items(const PickleValue& value) const { return objects[value.place]; }
};

struct ParsedPickle : Parsed<Pickle> {
  bool cut_off = false;  ///< the error is that the bytes end inside the pickle
};

/// Reads one pickle, of protocol 2 to 5, from the start of `bytes`, which must outlive the result. `globals` are those
/// that it may name, as "module.name"; `collections.OrderedDict` is always allowed and gives a dict. Never throws (but
/// bad_alloc); the error names the opcode or global that is refused, and where it stands.
ParsedPickle parse_pickle(std::span<const std::byte> bytes, std::span<const std::string_view> globals);

}  // namespace mixtape::data
