// Activation checkpointing: run a part of the model without recording, run it again when its gradient is due.
#pragma once

#include <functional>

#include "core/op.h"

namespace mixtape::autograd {

/// Runs `part` on `inputs` and keeps only the inputs. Backward runs it again under the modes of the first run
/// (precision rule, random coordinates, scope) and continues the sweep inside, so values, masks and gradients are the
/// same bits. `part` must be a pure function of its inputs and of parameters; those get their gradients as usual. When
/// no input is on the tape, there is nothing to hang the second run on: `part` is recorded as any other code, and saves
/// what that saves. Chen et al., "Training deep nets with sublinear memory cost" (2016).
Tensors checkpoint(const std::function<Tensors(const Tensors&)>& part, const Tensors& inputs);

bool is_checkpoint(const OpSchema& op);

}  // namespace mixtape::autograd
