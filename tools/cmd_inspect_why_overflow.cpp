// mixtape inspect why-overflow DIR [--step K]: which tensor overflowed first in a step that was skipped, and why.
#include <memory>
#include <optional>

#include "tools/commands.h"
#include "tools/inspect/overflow.h"

namespace mixtape::tools {
namespace {

struct WhyOptions {
  std::string dir;
  int64_t step = 0;  ///< 0: the last one
  bool json = false;
};

void why_overflow(const WhyOptions& options) {
  trainer::Progress progress(options.json ? trainer::Verbosity::quiet : trainer::Verbosity::normal);
  const inspect::Overflow overflow =
      inspect::why_overflow(options.dir, options.step > 0 ? std::optional(options.step) : std::nullopt, progress);
  progress.clear();
  print(options.json ? inspect::overflow_json(overflow).pretty() : inspect::overflow_text(overflow));
}

}  // namespace

void add_inspect_why_overflow(Verb& inspect) {
  Verb verb = inspect.add("why-overflow", "replays a skipped step of a run, and names the op that overflowed first");
  const auto options = std::make_shared<WhyOptions>();
  verb.option("DIR", options->dir, {.doc = "the run directory (train -s DIR)", .required = true});
  verb.option("--step", options->step,
              {.doc = "the step, as log.jsonl counts them; without it the last one that was skipped",
               .placeholder = "K",
               .range = {1, INT64_MAX}});
  verb.flag("--json", options->json, "as one JSON document: {\"step\", \"culprit\", \"passes_at\", \"verdict\", …}");
  verb.action([options] { why_overflow(*options); });
}

}  // namespace mixtape::tools
