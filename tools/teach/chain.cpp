#include "tools/teach/chain.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "amp/autocast.h"
#include "core/factory.h"
#include "core/op.h"

namespace mixtape::teach {
namespace {

constexpr double infinite = std::numeric_limits<double>::infinity();

/// How far `value` is off, against the largest magnitude of the exact result.
double error_against(double value, double exact, double largest) {
  if (!std::isfinite(exact)) return 0;  // nothing to hold it against
  if (!std::isfinite(value)) return infinite;
  return value == exact ? 0 : std::abs(value - exact) / (largest > 0 ? largest : 1);
}

Fault fault_of(double value, double exact, double error, const Format& format) {
  if (error == infinite) return Fault::overflow;
  if (value == 0 && exact != 0 && std::abs(exact) <= format.underflow) return Fault::underflow;
  return error > 8 * format.epsilon ? Fault::rounding : Fault::none;
}

ChainStep compare(const std::string& name, const Tensor& low, const Tensor& f32, const Tensor& f64) {
  const std::vector<double> values = to_vector(low), wide = to_vector(f32), exact = to_vector(f64);
  const Format format = format_of(low.dtype());
  double largest = 0;
  for (const double x : exact) largest = std::isfinite(x) ? std::max(largest, std::abs(x)) : largest;
  ChainStep step;
  step.name = name;
  size_t shown = 0;
  for (size_t i = 0; i < exact.size(); ++i) {
    const double error = error_against(values[i], exact[i], largest);
    const Fault fault = fault_of(values[i], exact[i], error, format);
    // A number that became 0 is worse than one that is a little off.
    const bool worse = fault == step.fault ? error > step.low_error : step.fault == Fault::none;
    if (worse || (fault == Fault::overflow && step.fault != Fault::overflow)) {
      step.fault = fault;
      shown = i;
    }
    step.low_error = std::max(step.low_error, error);
    step.f32_error = std::max(step.f32_error, error_against(wide[i], exact[i], largest));
  }
  step.low = values[shown];
  step.f32 = wide[shown];
  step.exact = exact[shown];
  return step;
}

double largest_error(const std::vector<double>& values, const std::vector<double>& exact) {
  double largest = 0, error = 0;
  for (const double x : exact) largest = std::max(largest, std::abs(x));
  for (size_t i = 0; i < exact.size(); ++i) error = std::max(error, error_against(values[i], exact[i], largest));
  return error;
}

std::string one_digit(double error) { return fmt::format("{:.1e}", error); }

std::string step_line(const Format& format, const ChainStep& step, bool first_wrong) {
  std::string line =
      fmt::format("   {:<18}{:<20}{:<20}{:<20}{:<10}{:<10}", step.name, decimal(step.low), decimal(step.f32),
                  decimal(step.exact), one_digit(step.low_error), one_digit(step.f32_error));
  if (first_wrong) line += fmt::format("<- first wrong in {}: {}", format.name, name_of(step.fault));
  return line.substr(0, line.find_last_not_of(' ') + 1) + "\n";
}

/// A number for JSON; what is not finite stands as a word, which all steps have room for.
trainer::Json number_json(double value) {
  return std::isfinite(value) ? trainer::Json(value) : trainer::Json(decimal(value));
}

trainer::Json step_json(const ChainStep& step) {
  return trainer::Json::object()
      .set("name", step.name)
      .set("low", number_json(step.low))
      .set("f32", number_json(step.f32))
      .set("exact", number_json(step.exact))
      .set("low_error", number_json(step.low_error))
      .set("f32_error", number_json(step.f32_error))
      .set("fault", name_of(step.fault));
}

}  // namespace

std::string_view name_of(Fault fault) {
  switch (fault) {
    case Fault::none: return "none";
    case Fault::overflow: return "overflow";
    case Fault::underflow: return "underflow";
    case Fault::rounding: return "rounding";
  }
  return "";
}

std::optional<size_t> Chain::first_wrong() const {
  for (size_t i = 0; i < steps.size(); ++i) {
    if (steps[i].fault != Fault::none) return i;
  }
  return std::nullopt;
}

Chain run_chain(std::string title, const Tensor& x, const Formula& formula, std::string_view op_name,
                const std::function<Tensor(const Tensor& x)>& op) {
  const NoGradGuard no_grad;
  Chain chain;
  chain.title = std::move(title);
  const std::vector<NamedResult> low = formula(x), f32 = formula(copy_of(x, DType::f32)),
                                 f64 = formula(copy_of(x, DType::f64));
  for (size_t i = 0; i < low.size(); ++i)
    chain.steps.push_back(compare(low[i].name, low[i].tensor, f32[i].tensor, f64[i].tensor));
  const amp::Autocast guard(x.dtype());
  const OpSchema& row = *find_op(op_name);
  chain.op = {"ops::" + std::string(op_name), std::string(name_of(context().cast_rule->of(row))),
              largest_error(to_vector(op(x)), to_vector(f64.back().tensor))};
  return chain;
}

Format parse_low_format(std::string_view name) {
  const Format format = parse_format(name);
  if (!is_low(format.dtype))
    fail(ErrorKind::config, "E-TEACH-FORMAT",
         message(name, ": expected a 16-bit format, fp16 or bf16; the lesson shows fp32 beside it"));
  return format;
}

std::string chain_text(const ChainLesson& lesson) {
  std::string out =
      fmt::format("every intermediate result rounded to {}, beside the same in fp32 and in f64\n", lesson.format.name);
  int number = 0;
  for (const Chain& chain : lesson.chains) {
    out += fmt::format("\n{}. {}\n", ++number, chain.title);
    const std::string error = fmt::format("err {}", lesson.format.name);
    out += fmt::format("   {:<18}{:<20}{:<20}{:<20}{:<10}{}\n", "step, worst place", lesson.format.name, "fp32", "f64",
                       error, "err fp32");
    const std::optional<size_t> wrong = chain.first_wrong();
    for (size_t i = 0; i < chain.steps.size(); ++i) out += step_line(lesson.format, chain.steps[i], wrong == i);
    if (!wrong) out += fmt::format("   nothing is wrong in {} here\n", lesson.format.name);
    out += fmt::format("   {} under autocast to {} (rule {}): error {}\n", chain.op.name, lesson.format.name,
                       chain.op.rule, one_digit(chain.op.error));
  }
  return out;
}

trainer::Json chain_json(const ChainLesson& lesson, trainer::Json head) {
  trainer::Json chains = trainer::Json::array();
  for (const Chain& chain : lesson.chains) {
    trainer::Json steps = trainer::Json::array();
    for (const ChainStep& step : chain.steps) steps.push(step_json(step));
    const std::optional<size_t> wrong = chain.first_wrong();
    chains.push(trainer::Json::object()
                    .set("title", chain.title)
                    .set("steps", std::move(steps))
                    .set("first_wrong", wrong ? trainer::Json(chain.steps[*wrong].name) : trainer::Json())
                    .set("op", trainer::Json::object()
                                   .set("name", chain.op.name)
                                   .set("rule", chain.op.rule)
                                   .set("error", number_json(chain.op.error))));
  }
  return head.set("dtype", lesson.format.name).set("lessons", std::move(chains));
}

}  // namespace mixtape::teach
