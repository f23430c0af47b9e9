// mixtape bench machine: what this machine does at best, matrix products and memory. The floor of a step is made of it.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <fstream>
#include <memory>

#include "core/factory.h"
#include "core/kernels/gemm.h"
#include "core/kernels/parallel.h"
#include "tools/bench.h"
#include "tools/config/build_info.h"
#include "tools/trainer/json.h"

namespace mixtape::tools {
namespace {

using Clock = std::chrono::steady_clock;

/// The median of 5 to 15 calls, of as many as half a second holds; one call before them is not counted.
template <class Call>
double median_seconds(const Call& call) {
  call();
  std::vector<double> times;
  for (double all = 0; times.size() < 5 || (times.size() < 15 && all < 0.5); all += times.back()) {
    const Clock::time_point start = Clock::now();
    call();
    times.push_back(std::chrono::duration<double>(Clock::now() - start).count());
  }
  std::nth_element(times.begin(), times.begin() + std::ssize(times) / 2, times.end());
  return times[times.size() / 2];
}

/// Of the last-level cache; 32 MiB where the system does not say.
int64_t cache_bytes() {
  int64_t largest = 0;
  for (int index = 0; index < 8; ++index) {
    std::ifstream file(fmt::format("/sys/devices/system/cpu/cpu0/cache/index{}/size", index));
    int64_t size = 0;
    char unit = ' ';
    if (file >> size >> unit) largest = std::max(largest, size * (unit == 'M' ? 1 << 20 : unit == 'K' ? 1 << 10 : 1));
  }
  return largest > 0 ? largest : int64_t{32} << 20;
}

}  // namespace

double gemm_rate(DType dtype) {
  constexpr int64_t m = 2048, k = 1024, n = 1024;
  const auto random = [dtype](const Shape& shape) {
    return randn(shape, {.seed = 1, .stream = rng_stream::test}, 1.0, 0.0, dtype);
  };
  const Tensor a = random({m, k}), b = random({k, n}), c = empty({m, n}, dtype);
  return 2.0 * m * k * n / median_seconds([&] { kernels::gemm(a.view(), b.view(), c.view()); });
}

int64_t triad_array_bytes() { return std::clamp<int64_t>(4 * cache_bytes(), int64_t{64} << 20, int64_t{256} << 20); }

double triad_rate() {
  const int64_t n = triad_array_bytes() / static_cast<int64_t>(sizeof(double));
  const auto array = [n] { return std::make_unique_for_overwrite<double[]>(static_cast<size_t>(n)); };
  const std::unique_ptr<double[]> a = array(), b = array(), c = array();
  kernels::parallel_for(n, n, [&](int64_t begin, int64_t end) {  // the threads touch first what they will use
    for (int64_t i = begin; i < end; ++i) a[i] = 0, b[i] = 1, c[i] = 2;
  });
  const double seconds = median_seconds([&] {
    kernels::parallel_for(n, n, [to = a.get(), x = b.get(), y = c.get()](int64_t begin, int64_t end) {
      for (int64_t i = begin; i < end; ++i) to[i] = x[i] + 3.0 * y[i];
    });
  });
  return 3.0 * static_cast<double>(triad_array_bytes()) / seconds;
}

std::string bench_machine(bool json) {
  const double f32 = gemm_rate(DType::f32) / 1e9, bf16 = gemm_rate(DType::bf16) / 1e9, triad = triad_rate() / 1e9;
  const char* how = kernels::gemm_native_bf16() ? "" : ", through f32: this CPU has no bf16 products";
  const double mib = static_cast<double>(triad_array_bytes()) / 0x1p20;
  if (!json) {
    return fmt::format(
        "{} threads, {} {}\n"
        "  matrix products f32   {:7.1f} GFLOP/s\n"
        "  matrix products bf16  {:7.1f} GFLOP/s{}\n"
        "  triad                 {:7.1f} GB/s: a[i] = b[i] + s*c[i] in f64, {:.0f} MiB each; 24 bytes an element, the\n"
        "                        read of a line that is then written (write-allocate) is not counted\n",
        kernels::thread_count(), kernels::gemm_engine(), kernels::gemm_engine_version(), f32, bf16, how, triad, mib);
  }
  return trainer::Json::object()
             .set("mode", "machine")
             .set("threads", kernels::thread_count())
             .set("isa", config::build_info().instructions)
             .set("gemm_f32_gflops", f32)
             .set("gemm_bf16_gflops", bf16)
             .set("native_bf16", kernels::gemm_native_bf16())
             .set("triad_gb_per_s", triad)
             .set("triad_array_bytes", triad_array_bytes())
             .line() +
         "\n";
}

}  // namespace mixtape::tools
