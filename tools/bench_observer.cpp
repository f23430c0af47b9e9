#include "tools/bench_observer.h"

#include <algorithm>
#include <chrono>

#include "core/context.h"

namespace mixtape::tools {

CheckCount::CheckCount(Observer& inner) : inner_(inner) {
  observer_.self = this;
  observer_.on_call = [](void* self, const CallEvent& event) {
    auto& count = *static_cast<CheckCount*>(self);
    count.checks_ += 3;
    if (count.inner_.on_call) count.inner_.on_call(count.inner_.self, event);
  };
  observer_.on_backward = [](void* self, const BackwardEvent& event) {
    auto& count = *static_cast<CheckCount*>(self);
    count.checks_ += 1;
    if (count.inner_.on_backward) count.inner_.on_backward(count.inner_.self, event);
  };
  observer_.on_enter = [](void* self, std::string_view work) {
    auto& count = *static_cast<CheckCount*>(self);
    count.checks_ += 2;
    if (count.inner_.on_enter) count.inner_.on_enter(count.inner_.self, work);
  };
  observer_.on_leave = [](void* self) {
    auto& count = *static_cast<CheckCount*>(self);
    if (count.inner_.on_leave) count.inner_.on_leave(count.inner_.self);
  };
}

double seconds_of_check() {
  using Clock = std::chrono::steady_clock;
  constexpr int64_t checks = 1'000'000;
  double best = 1;
  for (int round = 0; round < 5; ++round) {
    int64_t found = 0;
    const Clock::time_point start = Clock::now();
    for (int64_t i = 0; i < checks; ++i) {
      if (context().observer) ++found;
      asm volatile("" : "+r"(found) : : "memory");  // each check reads the context again
    }
    best = std::min(best, std::chrono::duration<double>(Clock::now() - start).count());
  }
  return best / checks;
}

}  // namespace mixtape::tools
