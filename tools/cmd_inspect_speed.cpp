// mixtape inspect speed CONFIG --amp off,bf16: where the time of a step goes in each dtype, and whether 16 bits pay.
#include <memory>

#include "tools/commands.h"
#include "tools/inspect/amps.h"
#include "tools/inspect/speed.h"

namespace mixtape::tools {
namespace {

struct SpeedOptions {
  std::string file, amps = "off,bf16";
  std::vector<std::string> sets;
  bool json = false;
};

void speed(const SpeedOptions& options) {
  trainer::Progress progress(options.json ? trainer::Verbosity::quiet : trainer::Verbosity::normal);
  const inspect::Speed result =
      inspect::measure_speed(options.file, options.sets, inspect::parse_amps(options.amps), progress);
  progress.clear();
  print(options.json ? inspect::speed_json(result).pretty() : inspect::speed_text(result));
}

}  // namespace

void add_inspect_speed(Verb& inspect) {
  Verb verb = inspect.add("speed", "where the time of a step goes in each dtype, and why 16 bits do not pay");
  const auto options = std::make_shared<SpeedOptions>();
  verb.option("CONFIG", options->file, {.doc = "configuration file (JSON with comments)", .required = true});
  verb.option("--amp", options->amps,
              {.doc = "which, with commas between: off, bf16, fp16", .shows_default = true, .placeholder = "LIST"});
  add_set_option(verb, options->sets);
  verb.flag("--json", options->json, "as one JSON document: {\"runs\", \"verdicts\"}");
  verb.action([options] { speed(*options); });
}

}  // namespace mixtape::tools
