#include "tools/teach/layernorm.h"

#include "core/factory.h"
#include "ops/ops.h"
#include "tools/teach/accumulate.h"

namespace mixtape::teach {
namespace {

/// γ = 1 and β = 0, which change nothing.
std::vector<NamedResult> layer_norm_steps(const Tensor& x, double eps) {
  const Tensor count = scalar(static_cast<double>(x.numel()), x.dtype());
  const Tensor mean = ops::div(running_sum(x), count), centred = ops::sub(x, mean);
  const Tensor squares = ops::mul(centred, centred), var = ops::div(running_sum(squares), count);
  const Tensor safe = ops::add(var, scalar(eps, x.dtype())), rstd = ops::rsqrt(safe);
  return {{"mean", mean},           {"x - mean", centred}, {"(x - mean)^2", squares},     {"variance", var},
          {"variance + eps", safe}, {"1 / sqrt", rstd},    {"y", ops::mul(centred, rstd)}};
}

}  // namespace

ChainLesson layernorm_lesson(const LayerNormOptions& options) {
  const Shape row{options.n};
  const RngCoordinates at{.seed = options.seed, .stream = rng_stream::test};
  std::vector<double> spiked = to_vector(randn(row, at));
  spiked.back() = options.outlier;
  const Formula formula = [&](const Tensor& x) { return layer_norm_steps(x, options.eps); };
  const auto op = [&](const Tensor& x) { return ops::layer_norm(x, full(row, 1), full(row, 0), options.eps); };
  ChainLesson out{format_of(options.dtype), {}};
  const auto add = [&](std::string title, const Tensor& x) {
    out.chains.push_back(run_chain(std::move(title), x, formula, "layer_norm", op));
  };
  const std::string of_seed = message(" (seed ", static_cast<int64_t>(options.seed), ")");
  add(message("a row of ", options.n, " values around 0", of_seed, ", one of them ", decimal(options.outlier)),
      from(spiked, row, options.dtype));
  add(message("a row of ", options.n, " values around ", decimal(options.mean), of_seed, ", spread 0.1, added up in ",
              out.format.name),
      randn(row, at, 0.1, options.mean, options.dtype));
  add(message("a row of ", options.n, " zeros, eps = ", decimal(options.eps)), full(row, 0, options.dtype));
  return out;
}

}  // namespace mixtape::teach
