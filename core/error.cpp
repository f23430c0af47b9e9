#include "core/error.h"

#include <charconv>

namespace mixtape {
namespace text {
namespace {
template <class Number>
void append_number(std::string& out, Number value) {
  char buffer[32];
  const std::to_chars_result end = std::to_chars(buffer, buffer + sizeof buffer, value);
  out.append(buffer, end.ptr);
}
}  // namespace

void append(std::string& out, std::string_view piece) { out.append(piece); }
void append(std::string& out, char piece) { out.push_back(piece); }
void append(std::string& out, double piece) { append_number(out, piece); }
void append(std::string& out, int64_t piece) { append_number(out, piece); }
}  // namespace text

void fail(ErrorKind kind, std::string code, const std::string& message) { throw Error(kind, std::move(code), message); }

}  // namespace mixtape
