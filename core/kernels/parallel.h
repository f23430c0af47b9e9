// parallel_for: OpenMP over ranges. Bodies write disjoint places and never depend on how the range was cut, so that no
// result depends on the thread count.
#pragma once

#include <cstdint>
#include <exception>

namespace mixtape::kernels {

/// Threads that a parallel region would use now.
int thread_count();
/// Limits the threads of parallel regions (0: one per usable core).
void set_thread_count(int threads);

namespace detail {
using RangeBody = void (*)(const void* body, int64_t begin, int64_t end);
void run_ranges(int64_t count, int64_t work, RangeBody run, const void* body);
}  // namespace detail

/// Calls body(begin, end) on ranges that cover [0, count); alone when `work` (elements touched) is too small to share.
/// The first exception of any range is rethrown. The body is instantiated once: a second copy doubles compile time.
template <class Body>
void parallel_for(int64_t count, int64_t work, const Body& body) {
  detail::run_ranges(
      count, work, [](const void* b, int64_t begin, int64_t end) { (*static_cast<const Body*>(b))(begin, end); },
      &body);
}

}  // namespace mixtape::kernels
