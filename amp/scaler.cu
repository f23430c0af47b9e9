// A loss scale on a GPU: the same rules as GradScaler's, in one thread.
#include "amp/scale_formula.h"
#include "amp/scaler_there.h"

#include "core/kernels/loops.h"

#include "core/kernels/place.cuh"

namespace mixtape::amp {
namespace {

using kernels::device::launch;

__global__ void begin_sweep_kernel(SweepRequest request) {
  const float loss = kernels::device::load(request.loss, request.dtype, 0);
  if (loss - loss != 0) request.memory->round.bad_loss = 1;
  const double scale = request.memory->state.scale.scale;
  request.memory->round.scale = scale;
  kernels::device::store(request.seed, request.dtype, 0, static_cast<float>(scale));
  *request.factor = 1 / scale;
}

__global__ void end_round_kernel(ScalerMemory* memory, ScaleOptions options) {
  const optim::RoundFlags round = memory->round;
  ScalerState& state = memory->state;
  const bool skipped = round.skipped || round.bad_loss;
  if (!round.bad_loss && (round.overflow || (round.gradients && !skipped))) {
    state.scale = next_scale(options, state.scale, round.overflow != 0);
  }
  ++state.rounds;
  if (skipped) {
    ++(round.bad_loss ? state.skipped_nonfinite : state.skipped_overflow);
    ++state.consecutive_skips;
  } else if (round.gradients) {
    state.consecutive_skips = 0;
  }
  memory->round = {};
}

void begin_sweep(const SweepRequest& request) { launch(begin_sweep_kernel, 1, 1, 0, nullptr, request); }
void end_round(ScalerMemory* memory, const ScaleOptions& options) {
  launch(end_round_kernel, 1, 1, 0, nullptr, memory, options);
}

const mixtape::detail::ProvideFunction provided[] = {{"amp.begin_sweep", &begin_sweep}, {"amp.end_round", &end_round}};

}  // namespace
}  // namespace mixtape::amp
