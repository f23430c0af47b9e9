#include "tools/teach/swallow.h"

#include <fmt/format.h>

#include "core/factory.h"
#include "core/parameter.h"
#include "optim/sgd.h"

namespace mixtape::teach {
namespace {

/// p - 1·(-update) at each step.
Walk walk(const SwallowOptions& options, DType held) {
  Tensor weight = full({1}, options.weight, held).set_requires_grad();
  optim::SGD optimizer({{"weight", weight}}, {.lr = 1.0});
  const Tensor gradient = full({1}, -options.update);
  Walk out;
  out.weight.push_back(to_vector(weight)[0]);
  for (int64_t step = 0; step < options.steps; ++step) {
    weight.leaf().gradient = {gradient, 1.0};
    optimizer.apply();
    out.weight.push_back(to_vector(weight)[0]);
    out.moved += out.weight.back() != out.weight[out.weight.size() - 2];
  }
  return out;
}

/// At most eleven steps, the first and the last among them.
std::vector<int64_t> shown_steps(int64_t steps) {
  std::vector<int64_t> out;
  for (int64_t i = 0; i <= 10; ++i) {
    const int64_t step = steps * i / 10;
    if (out.empty() || out.back() != step) out.push_back(step);
  }
  return out;
}

trainer::Json walk_json(const Walk& walk) {
  return trainer::Json::object().set("end", walk.weight.back()).set("moved", walk.moved);
}

}  // namespace

Swallow swallow(const SwallowOptions& options) {
  Swallow out;
  out.options = options;
  out.format = format_of(options.dtype);
  out.low = walk(options, options.dtype);
  out.master = walk(options, DType::f32);
  for (const double value : out.master.weight) out.copy.push_back(rounded(out.format, value));
  out.start = out.low.weight.front();
  out.half_ulp_above = (number_above(out.format, out.start) - out.start) / 2;
  out.half_ulp_below = (out.start - number_below(out.format, out.start)) / 2;
  return out;
}

std::string swallow_text(const Swallow& lesson) {
  const std::string name(lesson.format.name), start = decimal(lesson.start);
  const std::string copy = name + " copy of it";
  std::string out = fmt::format(
      "a weight of {} in {}, {} updates of {}\n"
      "half an ulp at {} is {:.2e} upwards, {:.2e} downwards: a smaller update changes nothing there\n\n",
      start, name, lesson.options.steps, decimal(lesson.options.update), start, lesson.half_ulp_above,
      lesson.half_ulp_below);
  out += fmt::format("{:>8}  {:<20}{:<20}{}\n", "step", name + " alone", "fp32 master", copy);
  for (const int64_t step : shown_steps(lesson.options.steps)) {
    const auto at = static_cast<size_t>(step);
    out += fmt::format("{:>8}  {:<20}{:<20}{}\n", step, decimal(lesson.low.weight[at]),
                       decimal(lesson.master.weight[at]), decimal(lesson.copy[at]));
  }
  return out + fmt::format("\nupdates that changed it: {} alone {} of {}, fp32 master {} of {}\n", name,
                           lesson.low.moved, lesson.options.steps, lesson.master.moved, lesson.options.steps);
}

trainer::Json swallow_json(const Swallow& lesson) {
  return trainer::Json::object()
      .set("dtype", lesson.format.name)
      .set("weight", lesson.start)
      .set("update", lesson.options.update)
      .set("steps", lesson.options.steps)
      .set("half_ulp_above", lesson.half_ulp_above)
      .set("half_ulp_below", lesson.half_ulp_below)
      .set("low", walk_json(lesson.low))
      .set("master", walk_json(lesson.master).set("copy_end", lesson.copy.back()));
}

}  // namespace mixtape::teach
