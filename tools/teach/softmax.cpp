#include "tools/teach/softmax.h"

#include "core/factory.h"
#include "ops/ops.h"
#include "tools/teach/accumulate.h"

namespace mixtape::teach {
namespace {

std::vector<NamedResult> naive_softmax(const Tensor& x) {
  const Tensor e = ops::exp(x), sum = running_sum(e);
  return {{"x", x}, {"exp(x)", e}, {"sum", sum}, {"exp(x) / sum", ops::div(e, sum)}};
}

std::vector<NamedResult> stable_softmax(const Tensor& x) {
  const Tensor largest = ops::max(x), shifted = ops::sub(x, largest), e = ops::exp(shifted), sum = running_sum(e);
  return {{"max", largest}, {"x - max", shifted}, {"exp(x - max)", e}, {"sum", sum}, {"p", ops::div(e, sum)}};
}

std::vector<NamedResult> log_of_softmax(const Tensor& x) {
  std::vector<NamedResult> steps = stable_softmax(x);
  steps.push_back({"log p", ops::log(steps.back().tensor)});
  return steps;
}

std::string list_of(const std::vector<double>& values) {
  std::string out;
  for (const double value : values) out += (out.empty() ? "" : ", ") + decimal(value);
  return out;
}

}  // namespace

ChainLesson softmax_lesson(const SoftmaxOptions& options) {
  const auto softmax = [](const Tensor& x) { return ops::softmax(x); };
  const Tensor scores = from(options.scores, {std::ssize(options.scores)}, options.dtype);
  const RngCoordinates at{.seed = options.seed, .stream = rng_stream::test};
  const Tensor many = randn({options.n}, at, options.spread, 0, options.dtype);
  ChainLesson out{format_of(options.dtype), {}};
  out.chains.push_back(run_chain(message("the scores ", list_of(options.scores), ", the maximum not subtracted"),
                                 scores, naive_softmax, "softmax", softmax));
  out.chains.push_back(run_chain(message(options.n, " scores around 0, spread ", decimal(options.spread), " (seed ",
                                         static_cast<int64_t>(options.seed), "), added up in ", out.format.name),
                                 many, stable_softmax, "softmax", softmax));
  out.chains.push_back(run_chain(message("the scores ", list_of(options.scores), " again, and the logarithm: a loss"),
                                 scores, log_of_softmax, "log_softmax",
                                 [](const Tensor& x) { return ops::log_softmax(x); }));
  return out;
}

}  // namespace mixtape::teach
