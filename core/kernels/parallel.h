// parallel_for: OpenMP over ranges. Bodies write disjoint places and never depend on how the range was cut, so that no
// result depends on the thread count.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <exception>
#include <vector>

namespace mixtape::kernels {

/// Threads that a parallel region would use now.
int thread_count();
/// Limits the threads of parallel regions. 0: what the environment's OMP_NUM_THREADS says, else one for each core that
/// affinity and cgroups leave to this process (core/machine.h).
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

/// What the ranges of one parallel_for work with: as many as can run at once, made before and kept until all have
/// ended. So the memory that they need does not depend on which threads meet.
template <class T>
class PerRange {
 public:
  template <class... Args>
  explicit PerRange(int64_t count, const Args&... args) {
    const int64_t ranges = std::clamp<int64_t>(count, 1, thread_count());
    items_.reserve(static_cast<size_t>(ranges));
    for (int64_t i = 0; i < ranges; ++i) items_.emplace_back(args...);
  }
  /// Another one for each call, of which every range makes one.
  T& take() { return items_[next_++]; }

 private:
  std::vector<T> items_;
  std::atomic<size_t> next_ = 0;
};

}  // namespace mixtape::kernels
