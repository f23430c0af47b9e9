// The machine behind the device's side of a test: the device-on-CPU runner, or a GPU (MIXTAPE_GPU), whose programs are
// built from the same files.
#pragma once

#include <cstddef>
#include <cstdint>

#if !defined(MIXTAPE_GPU)
#include "tests/simt/fiber.h"
#include "tests/simt/include/cuda_runtime.h"
#include "tests/simt/memory.h"
#endif

namespace mixtape::simt_tests {

#if defined(MIXTAPE_GPU)
inline constexpr const char* machine_name = "gpu";
/// How often a case runs on the device. Blocks of a GPU come in an order of their own, each time.
inline constexpr int turns = 3;
inline constexpr int first_long_turn = 0;
/// Whether the device's arithmetic has the last bits of this CPU's: nvcc joins a product and a sum.
inline constexpr bool rounds_as_here = false;
struct Turn {
  explicit Turn(int, bool = true) {}
  ~Turn() {}
};
struct Guarded {
  Guarded() {}
  ~Guarded() {}
};
struct Deferred {
  Deferred() {}
  ~Deferred() {}
};
inline void prepare_machine() {}
// Unknown.
inline size_t kernels_launched() { return 0; }
inline int64_t waits() { return 0; }
inline int races_reported() { return 0; }
#else
inline constexpr const char* machine_name = "simt";
/// How often a case runs on the device: in each order of blocks and threads, the last one deferred.
#if defined(MIXTAPE_SIMT_COVERAGE)
inline constexpr int turns = 1;
#else
inline constexpr int turns = 3;
#endif
/// The first turn of a case that is long: under a sanitizer it is made once.
#if defined(MIXTAPE_SIMT_TSAN) || defined(MIXTAPE_SIMT_ASAN)
inline constexpr int first_long_turn = turns - 1;
#else
inline constexpr int first_long_turn = 0;
#endif
inline constexpr bool rounds_as_here = true;
class Turn {
 public:
  /// Guarding is dear where each launch runs by itself.
  explicit Turn(int turn, bool guard = true)
      : guard_({.order = orders[turn], .seed = 7, .deferred = turn == 2, .guard = guard}) {}

 private:
  static constexpr simt::Order orders[3] = {simt::Order::forward, simt::Order::reverse, simt::Order::shuffled};
  simt::OptionsGuard guard_;
};
/// Device memory is out of the host's reach.
class Guarded {
 public:
  Guarded() : guard_({.guard = true}) {}

 private:
  simt::OptionsGuard guard_;
};
/// Work runs only where the host waits for it.
class Deferred {
 public:
  Deferred() : guard_({.deferred = true, .guard = true}) {}

 private:
  simt::OptionsGuard guard_;
};
inline void prepare_machine() { simt::explain_faults(); }
inline size_t kernels_launched() { return simt::kernels_launched(); }
/// How often the host waited for the device since the start.
inline int64_t waits() { return simt::waits(); }
/// How many data races the detector has told of: failures, which it would say by the exit code alone.
inline int races_reported() { return simt::races_reported(); }
#endif

}  // namespace mixtape::simt_tests
