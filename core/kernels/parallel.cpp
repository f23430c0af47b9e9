#include "core/kernels/parallel.h"

#include <omp.h>
#include <sched.h>

#include <algorithm>

namespace mixtape::kernels {

int thread_count() { return omp_get_max_threads(); }

void set_thread_count(int threads) {
#if defined(__SANITIZE_THREAD__)
  return omp_set_num_threads(1);  // ThreadSanitizer does not see libgomp's barriers
#endif
  if (threads > 0) return omp_set_num_threads(threads);
  cpu_set_t usable;  // what the process may run on, not what the machine has
  const int cores = sched_getaffinity(0, sizeof usable, &usable) == 0 ? CPU_COUNT(&usable) : omp_get_num_procs();
  omp_set_num_threads(std::max(1, cores));
}

namespace detail {
void run_ranges(int64_t count, int64_t work, RangeBody run, const void* body) {
  constexpr int64_t worth_sharing = 32 * 1024;  // a region costs some microseconds
  if (count <= 0) return;
  if (work < worth_sharing || count == 1 || omp_in_parallel()) return run(body, 0, count);
  const int threads = static_cast<int>(std::min<int64_t>(thread_count(), count));
  std::exception_ptr first_error;  // an exception must not leave a parallel region
#pragma omp parallel num_threads(threads)
  {
    const int64_t team = omp_get_num_threads(), rank = omp_get_thread_num();
    try {
      const int64_t begin = count * rank / team, end = count * (rank + 1) / team;
      if (begin < end) run(body, begin, end);
    } catch (...) {
#pragma omp critical
      if (!first_error) first_error = std::current_exception();
    }
  }
  if (first_error) std::rethrow_exception(first_error);
}
}  // namespace detail

}  // namespace mixtape::kernels
