#include "core/kernels/parallel.h"

#include <omp.h>

#include <algorithm>
#include <cstdlib>

#include "core/machine.h"

namespace mixtape::kernels {
namespace {

/// What OMP_NUM_THREADS says, read by OpenMP itself before anybody asks for another number; 0: it is not set.
const int given_by_environment = [] {
  const char* const given = std::getenv("OMP_NUM_THREADS");
  return given != nullptr && *given != '\0' ? omp_get_max_threads() : 0;
}();

}  // namespace

int thread_count() { return omp_get_max_threads(); }

void set_thread_count(int threads) {
#if defined(__SANITIZE_THREAD__)
  return omp_set_num_threads(1);  // ThreadSanitizer does not see libgomp's barriers
#endif
  if (threads > 0) return omp_set_num_threads(threads);
  omp_set_num_threads(given_by_environment > 0 ? given_by_environment : usable_cores());
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
