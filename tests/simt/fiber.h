// A fiber: a function on a stack of its own that can stop in the middle and go on later. One CUDA thread is one fiber.
//
// To the sanitizers each is a thread of its own. Switching says nothing about what happened before what: the race
// detector sees the order that barriers promise, not the one in which one OS thread happens to run the fibers.
#pragma once

#include <cstddef>

namespace mixtape::simt {

/// What a fiber's stack holds at most. A kernel on a GPU has less; race reports are written on it too.
#if defined(MIXTAPE_SIMT_TSAN) || defined(MIXTAPE_SIMT_ASAN)
inline constexpr size_t stack_bytes = 256 * 1024;
#else
inline constexpr size_t stack_bytes = 64 * 1024;
#endif

class Fiber {
 public:
  using Entry = void (*)(void* argument);

  /// `number` shifts the top of the stack: tops at one offset of all pages would share a few sets of the cache.
  explicit Fiber(int number);
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  /// Sets the fiber to the beginning of `entry`, whatever it was in the middle of. `entry` must never return.
  void start(Entry entry, void* argument);
  /// Goes on in the fiber; returns when it suspends.
  void resume();
  /// In the fiber: back to where it was resumed.
  void suspend();
  /// The guard page below the stack: touching it means that the stack is too small.
  bool guards(const void* address) const;

  struct Context;  // registers, and what the sanitizers want to know

 private:
  Context* context_;
  char* low_;  // guard page, then the stack
  size_t coloured_;
};

/// What barriers tell the race detector: all that was released at an address happened before it is acquired there.
void happens_before(void* address);
void happens_after(void* address);
/// How many races this process has reported: a failure each, which the detector itself would only say by the exit code.
int races_reported();

}  // namespace mixtape::simt
