// Steps of optimizers on the device-on-CPU runner, beside the rows of the op table.
#pragma once

#include "ops/optest.h"

namespace mixtape::simt_tests {

/// The same gradients on both machines give the same bits: every optimizer, dtype and way of rounding, with a step that
/// must be skipped and a gradient that comes late.
void check_optimizers(optest::Report& report);

/// Rounds of a scaler for each of two losses, and of steps that are tried again, are those of the CPU.
void check_scalers(optest::Report& report);

/// Steps of a small BERT with autocast, dropout, loss scale, clipping and a schedule, beside those of the CPU; one of
/// them overflows.
void check_bert_steps(optest::Report& report);

}  // namespace mixtape::simt_tests
