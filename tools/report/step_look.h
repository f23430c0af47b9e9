// StepLook: what the files of a run do not hold, from a look at one step of its configuration.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "amp/ledger.h"
#include "tools/config/config.h"
#include "tools/inspect/memory.h"
#include "tools/report/histograms.h"
#include "tools/report/run.h"
#include "tools/trainer/progress.h"

namespace mixtape::report {

struct LedgerLook {
  std::vector<amp::LedgerRow> rows;           ///< of the forward, numbered parts together
  amp::LedgerTotals totals, first_step = {};  ///< of a step, and of the first, which casts more
};

/// Each part, or why there is none.
struct StepLook {
  std::optional<LedgerLook> ledger;
  std::optional<inspect::MemoryPlan> memory;
  std::optional<Histograms> histograms;
  std::string no_ledger, no_memory, no_histograms;
};

/// Runs steps of the run's configuration, as `mixtape inspect ledger`, `inspect memory` and `inspect histogram` do.
/// Data, vocabulary or weights that are gone since leave their parts empty, with the reason.
StepLook look_at_step(const RunRecord& run, const config::Config& config, trainer::Progress& progress);

/// Of the step right after the newest checkpoint before the run's last step, so that no step is trained again; of the
/// first step where there is none. Throws what inspect::visit_steps_of_run throws.
Histograms collect_histograms(const RunRecord& run, trainer::Progress& progress);

}  // namespace mixtape::report
