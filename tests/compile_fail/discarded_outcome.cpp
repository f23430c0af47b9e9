// expect: nodiscard
#include "amp/grad_scaler.h"

// What a step did must reach somebody: a schedule, a log, a counter.
void train(mixtape::amp::GradScaler& scaler, mixtape::optim::Optimizer& optimizer) {
#ifdef MIXTAPE_CORRECTED
  (void)scaler.step(optimizer).get();
#else
  scaler.step(optimizer);
#endif
}
