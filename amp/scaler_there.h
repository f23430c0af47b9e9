// What GradScaler keeps on a device, where losses and gradients are known first.
#pragma once

#include "amp/grad_scaler.h"
#include "core/dtype.h"
#include "optim/step_state.h"

namespace mixtape::amp {

/// In device memory. The flags stand first: optimizers take a pointer to them.
struct ScalerMemory {
  optim::RoundFlags round;
  ScalerState state;
};

/// Where a sweep of a loss begins.
struct SweepRequest {
  ScalerMemory* memory;
  const void* loss;  ///< one element of `dtype`
  void* seed;        ///< the same: gets the scale
  double* factor;    ///< gets 1/scale
  DType dtype;
};

// What a module provides: "amp.begin_sweep" notes a loss that is not finite, "amp.end_round" is GradScaler::update().
using BeginSweepFunction = void(const SweepRequest& request);
using EndRoundFunction = void(ScalerMemory* memory, const ScaleOptions& options);

}  // namespace mixtape::amp
