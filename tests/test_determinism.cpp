// F24: the same seed gives the same bits, in another process, at other addresses, in other surroundings.
#include <doctest/doctest.h>

#include "tests/tiny_run.h"

namespace mixtape::tests {
namespace {

/// All that a run leaves behind and that may not depend on time or place, as one text.
std::string traces(const std::string& run) {
  std::string out = slurp(run + "/best/model.safetensors") + slurp(run + "/best/config.json");
  const nlohmann::json metrics = nlohmann::json::parse(slurp(run + "/metrics.json"));
  for (const char* key : {"val", "test", "best_step"}) out += metrics[key].dump();
  for (nlohmann::json event : read_log(run + "/log.jsonl")) {
    for (const char* key : {"seconds", "tokens_per_s", "peak_bytes", "peak_rss_bytes"}) event.erase(key);
    out += event.dump() + "\n";
  }
  return out;
}

/// Runs that differ in nothing that may matter.
const std::vector<std::string>& surroundings() {
  static const std::vector<std::string> list = [] {
    std::vector<std::string> out{"", "", "TZ=Asia/Tokyo LC_ALL=de_DE.UTF-8 HOME=/nowhere"};
    if (std::system("setarch -R true 2>/dev/null") == 0) {
      out.insert(out.end(), {"setarch -R", "setarch -R env SOME_MORE_STACK=" + std::string(3000, 'x')});
    } else {
      MESSAGE("skipped: setarch -R is not allowed here, so address randomisation stays on");
      out.insert(out.end(), {"", ""});
    }
    return out;
  }();
  return list;
}

}  // namespace

TEST_CASE("F24: 20 runs, equal seeds give equal bytes with address randomisation on and off") {
  const std::vector<std::vector<std::string>> settings = {
      {"amp.dtype=off"},
      {"amp.dtype=bf16", "trainer.gradient_accumulation_steps=2"},
      {"amp.dtype=fp16", "amp.init_scale=1048576"},
      {"amp.dtype=off", "model.head=softmax", "model.pooling=pooler", "trainer.seed=7"},
  };
  int runs = 0;
  std::vector<std::string> seen;
  for (const std::vector<std::string>& sets : settings) {
    const TinyRun tiny;
    std::string first;
    for (const std::string& before : surroundings()) {
      const std::string dir = tiny.path(message("run", runs++));
      const ProgramResult result =
          run_program("train '" + tiny.config_path() + "' -q -s '" + dir + "'" + set_options(sets), "", before);
      CAPTURE(before);
      CAPTURE(result.err);
      REQUIRE(result.exit_code == 0);
      if (first.empty()) first = traces(dir);
      CHECK((traces(dir) == first));
    }
    for (const std::string& other : seen) CHECK_FALSE((first == other));
    seen.push_back(first);
  }
  CHECK(runs == 20);
}

}  // namespace mixtape::tests
