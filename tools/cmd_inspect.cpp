// mixtape inspect ledger CONFIG [--composed] [--errors]: what one training step ran in which dtype.
#include <memory>

#include "tools/commands.h"
#include "tools/config/config.h"
#include "tools/inspect/ledger.h"

namespace mixtape::tools {
namespace {

struct InspectOptions {
  std::string file;
  std::vector<std::string> sets;
  bool json = false;
  bool composed = false, errors = false;
};

void ledger(const InspectOptions& options) {
  trainer::Progress progress(options.json ? trainer::Verbosity::quiet : trainer::Verbosity::normal);
  amp::Ledger ledger(options.errors ? inspect::error_against_f64 : nullptr);
  const amp::LedgerTotals first_step =
      inspect::run_ledger(load_config(options.file, options.sets), options.composed, progress, ledger);
  print(options.json ? ledger.json(&first_step) + "\n" : ledger.text(&first_step));
}

}  // namespace

void add_inspect(Program& program) {
  Verb verb = program.root.add("inspect", "what happens inside a step, and what is in a checkpoint");
  Verb sub = verb.add("ledger", "which op of a warm step runs in which dtype, by which rule, with which casts");
  const auto options = std::make_shared<InspectOptions>();
  sub.option("CONFIG", options->file, {.doc = "configuration file (JSON with comments)", .required = true});
  add_set_option(sub, options->sets);
  sub.flag("--json", options->json, "as JSON: {\"ops\", \"backward\", \"totals\", \"multiplied_in\", \"first_step\"}");
  sub.flag("--composed", options->composed, "every op by itself: what the fused ones stand for");
  sub.flag("--errors", options->errors,
           "how far each op is from the same in f64 on its own inputs: slow on large models");
  sub.action([options] { ledger(*options); });
  add_inspect_weights(verb);
  add_inspect_memory(verb);
  add_inspect_why_overflow(verb);
  add_inspect_compare(verb);
  add_inspect_speed(verb);
  add_inspect_histogram(verb);
  add_inspect_scale(verb);
}

}  // namespace mixtape::tools
