// The reader under the configuration and the policies: places inside the text, strings that come back as they were.
#include "data/file.h"
#include "tests/fuzz/target.h"
#include "tools/config/json_locate.h"

namespace mixtape::fuzz {
namespace {

void walk(const config::Value& value, int lines) {
  require(value.at.line >= 1 && value.at.line <= lines && value.at.column >= 1, "a value stands in the text");
  (void)config::spelling(value);
  if (value.kind == config::Kind::string) {
    const config::Document again = config::read_json(config::quote_json(value.text));
    require(again.problems.empty() && again.root.text == value.text, "a quoted string is itself");
  }
  for (const config::Value& item : value.items) walk(item, lines);
  for (const config::Member& member : value.members) walk(member.value, lines);
}

}  // namespace

void check(std::string_view bytes) {
  const config::Document document = config::read_json(bytes);
  require(document.complete || !document.problems.empty(), "reading that stops says why");
  int lines = 1;
  for (const char c : bytes) lines += c == '\n';
  for (const config::Problem& problem : document.problems) {
    require(!problem.code.empty() && !problem.text.empty(), "a problem has a code and a text");
    require(problem.at.line >= 1 && problem.at.line <= lines, "a problem stands in the text");
  }
  if (document.complete) walk(document.root, lines);
}

}  // namespace mixtape::fuzz
