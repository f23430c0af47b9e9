// JSON with comments, read strictly, every value with its place: what errors about a configuration need.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace mixtape::config {

/// A place in a text; line 0 stands for the command line.
struct Position {
  int line = 1;
  int column = 1;  ///< in characters, a tab counts one
};

/// One thing that is wrong, for the report.
struct Problem {
  std::string code;  ///< "E-CONFIG-RANGE"
  Position at;
  std::string subject;  ///< the dotted path, and the value where there is one: "trainer.max_grad_norm = -1"
  std::string text;     ///< what is expected, and the remedy
};

enum class Kind { null, boolean, number, string, array, object, invalid /* reported when it was read */ };

struct Member;

/// A JSON value and its place.
struct Value {
  Kind kind = Kind::null;
  Position at;
  std::string text;  ///< a string's content; for numbers and words the spelling
  bool boolean = false;
  double number = 0;
  std::vector<Value> items;
  std::vector<Member> members;  ///< in the order of the file; of duplicate keys the first
};

struct Member {
  std::string key;
  Position at;  ///< of the key
  Value value;
};

/// Null when `object` is none, or has no such member.
const Value* find_member(const Value& object, std::string_view key);

/// What `read_json` makes of a text.
struct Document {
  Value root;
  std::vector<Problem> problems;
  bool complete = false;  ///< false: reading had to stop, `root` holds only a part
};

/// Reads one JSON value: `//` and `/* */` comments and a leading UTF-8 byte order mark are skipped; trailing commas,
/// duplicate keys, NaN, numbers that no double holds, invalid UTF-8 and more than 64 levels are problems. Never throws
/// and never looks at the locale. A byte that is not UTF-8 may be written as the lone surrogate \udc80..\udcff (file
/// names).
Document read_json(std::string_view text);

/// The text as a JSON string with its quotes; bytes that are not UTF-8 become \udc80..\udcff.
std::string quote_json(std::string_view text);

/// The value as one would write it, cut after about 40 characters.
std::string spelling(const Value& value);

}  // namespace mixtape::config
