// MANIFEST (its last line, the hash, is made right here) and state.json of a checkpoint.
#include "core/error.h"
#include "tests/fuzz/target.h"
#include "tools/trainer/hash.h"
#include "tools/trainer/manifest.h"
#include "tools/trainer/run_state.h"

namespace mixtape::fuzz {

void check(std::string_view bytes) {
  if (bytes.starts_with('{')) {
    const trainer::RunState state = trainer::parse_run_state(bytes, "state.json");
    const std::string again = trainer::parse_run_state(state.json(), "again").json();
    require(again == state.json(), "what was read is written the same again");
    return;
  }
  // Few inputs guess a hash of their own: the last line is made right.
  trainer::Hash hash;
  hash.add(bytes);
  const std::string text = std::string(bytes) + "end " + hash.digits() + "\n";
  const auto parsed = trainer::parse_manifest(text);
  require(parsed.value.has_value() == parsed.error.empty(), "a value or an error");
  require(!trainer::parse_manifest(bytes).value || bytes.ends_with('\n'), "no manifest without its last line");
  if (!parsed.value) return;
  require(parsed.value->text() == text, "a manifest is exactly what its text makes");
}

}  // namespace mixtape::fuzz
