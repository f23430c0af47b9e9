#include "tools/report/step_look.h"

#include <functional>

#include "core/error.h"
#include "tools/inspect/ledger.h"

namespace mixtape::report {
namespace {

/// "" or the reason. A fault of ours is no reason: it goes on up.
std::string why_not(const std::function<void()>& work) {
  try {
    work();
    return "";
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::internal) throw;
    return error.code() + ": " + error.what();
  }
}

}  // namespace

StepLook look_at_step(const RunRecord& run, const config::Config& config, trainer::Progress& progress) {
  StepLook look;
  look.no_ledger = why_not([&] {
    amp::Ledger ledger;
    const amp::LedgerTotals first_step = inspect::run_ledger(config, false, progress, ledger);
    look.ledger = LedgerLook{amp::grouped(ledger.forward()), ledger.totals(), first_step};
  });
  look.no_memory = why_not([&] { look.memory = inspect::measure_memory(config, progress); });
  look.no_histograms = why_not([&] { look.histograms = collect_histograms(run, progress); });
  return look;
}

}  // namespace mixtape::report
