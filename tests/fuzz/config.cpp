// A configuration, and behind a NUL the arguments of --set, a line each. What is accepted is written and read again.
#include "tools/config/config.h"

#include "data/file.h"
#include "tests/fuzz/target.h"

namespace mixtape::fuzz {

void check(std::string_view bytes) {
  const size_t end = std::min(bytes.find('\0'), bytes.size());
  std::vector<std::string> sets;
  for (const std::string_view line : data::split_lines(bytes.substr(std::min(end + 1, bytes.size())))) {
    if (sets.size() < 8) sets.emplace_back(line);
  }
  const config::Config config = config::parse_config(bytes.substr(0, end), "fuzz.json", "/nowhere", sets);
  const std::string text = config::to_json(config);
  const config::Config again = config::parse_config(text, "again.json", "/nowhere", {});
  require(config::to_json(again) == text, "the effective configuration gives itself again");
}

}  // namespace mixtape::fuzz
