// mixtape bench maths: how far our elementary functions are from the truth.
#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <vector>

#include "core/kernels/parallel.h"
#include "core/maths.h"
#include "ops/gelu.h"
#include "tools/bench.h"
#include "tools/trainer/json.h"
#include "tools/ulp.h"

namespace mixtape::tools {
namespace {

struct Function {
  const char* name;
  float (*ours)(float);
  double (*truth)(double);  // its relative error is far below that of a float
};

double normal_cdf(double x) { return 0.5 * std::erfc(-x * 0.70710678118654752440); }
const Function functions[] = {
    {"exp", [](float x) { return maths::exp(x); }, [](double x) { return std::exp(x); }},
    {"log", [](float x) { return maths::log(x); }, [](double x) { return std::log(x); }},
    {"log1p", [](float x) { return maths::log1p(x); }, [](double x) { return std::log1p(x); }},
    {"tanh", [](float x) { return maths::tanh(x); }, [](double x) { return std::tanh(x); }},
    {"sigmoid", [](float x) { return maths::sigmoid(x); },
     [](double x) { return x < 0 ? std::exp(x) / (1 + std::exp(x)) : 1 / (1 + std::exp(-x)); }},
    {"erf", [](float x) { return maths::erf(x); }, [](double x) { return std::erf(x); }},
    {"normal_cdf", [](float x) { return maths::normal_cdf(x); }, normal_cdf},
    {"gelu", [](float x) { return ops::gelu_value(x); }, [](double x) { return x < -40 ? 0 : x * normal_cdf(x); }},
};

struct Worst {
  double ulp = 0;
  float at = 0;
  int64_t wrong = 0;  // NaN or infinite where the truth is not, or the other way round
  void take(const Worst& other) {
    if (other.ulp > ulp) ulp = other.ulp, at = other.at;
    wrong += other.wrong;
  }
};

void look(const Function& f, float x, Worst& worst) {
  const double error = error_in_ulp(f.ours(x), f.truth(static_cast<double>(x)));
  if (std::isinf(error)) {
    ++worst.wrong;
  } else if (error > worst.ulp) {
    worst.ulp = error, worst.at = x;
  }
}

/// Over every `every`-th of the 2^32 floats.
Worst worst_of(const Function& f, int64_t every) {
  constexpr int64_t pieces = 1024, bits = int64_t{1} << 32;
  std::vector<Worst> parts(pieces);
  kernels::parallel_for(pieces, bits / every, [&](int64_t begin, int64_t end) {
    for (int64_t piece = begin; piece < end; ++piece) {
      const int64_t first = (piece * (bits / pieces) + every - 1) / every * every, last = (piece + 1) * (bits / pieces);
      for (int64_t i = first; i < last; i += every) {
        look(f, std::bit_cast<float>(static_cast<uint32_t>(i)), parts[static_cast<size_t>(piece)]);
      }
    }
  });
  Worst worst;
  for (const Worst& part : parts) worst.take(part);
  return worst;
}

}  // namespace

std::string bench_maths(int64_t every, bool json) {
  std::string text = fmt::format("errors over {}\n{:<12}{:>12}  {:<17}{}\n",
                                 every == 1 ? "all floats" : fmt::format("every {}th float", every), "function",
                                 "ulp at most", "at", "wrong NaN or inf");
  trainer::Json all = trainer::Json::object();
  for (const Function& f : functions) {
    const Worst worst = worst_of(f, every);
    text += fmt::format("{:<12}{:>12.3f}  {:<17.9g}{}\n", f.name, worst.ulp, worst.at, worst.wrong);
    all.set(f.name, trainer::Json::object()
                        .set("ulp", worst.ulp)
                        .set("at", static_cast<double>(worst.at))
                        .set("wrong", worst.wrong));
  }
  return json ? trainer::Json::object().set("every", every).set("functions", std::move(all)).line() + "\n" : text;
}

}  // namespace mixtape::tools
