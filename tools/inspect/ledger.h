// inspect ledger: what a training step of a configuration runs in which dtype.
#pragma once

#include "amp/ledger.h"
#include "tools/config/config.h"
#include "tools/trainer/progress.h"

namespace mixtape::inspect {

/// Takes two training steps on the first batch of the training file (the first rows, sorted by length) and fills
/// `ledger` with the second, which is like all that follow: the first makes the weights' 16-bit copies, which the
/// optimizer then keeps. Returns the totals of the first. `composed`: without the fused ops. Sets the thread count of
/// the configuration. Throws what the readers of vocabulary, data and weights throw.
amp::LedgerTotals run_ledger(config::Config config, bool composed, trainer::Progress& progress, amp::Ledger& ledger);

/// For a ledger with errors: a call against the op in f64 on the call's own inputs, which takes much longer than it.
std::optional<double> error_against_f64(const CallEvent& event);

}  // namespace mixtape::inspect
