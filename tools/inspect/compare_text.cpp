#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "tools/inspect/compare.h"

namespace mixtape::inspect {
namespace {

using trainer::Json;

std::string cosine_text(double cosine) { return std::isfinite(cosine) ? fmt::format("{:.6f}", cosine) : "-"; }

std::string place_of(const OpError& e) {
  return message(e.op, e.backward ? ".backward" : "", " at ", e.scope.empty() ? "the top" : e.scope, " (", e.tensor,
                 ", ", name_of(e.dtype), ")");
}

std::string steps_text(const Comparison& c) {
  std::string out = fmt::format("{:>5} {:>12} {:>12} {:>11} {:>9}", "step", "loss a", "loss b", "gap", "cosine");
  for (const std::string& layer : c.layers) out += fmt::format("  {:>{}}", layer, std::max<size_t>(9, layer.size()));
  out += "\n";
  for (const CompareStep& s : c.steps) {
    out += fmt::format("{:>5} {:>12.6f} {:>12.6f} {:>11.2e} {:>9}", s.step, s.loss_a, s.loss_b, s.gap(),
                       cosine_text(s.cosine));
    for (size_t i = 0; i < c.layers.size(); ++i) {
      out += fmt::format("  {:>{}}", cosine_text(s.cosines[i]), std::max<size_t>(9, c.layers[i].size()));
    }
    if (s.outcome_a != "applied") out += "  a: " + s.outcome_a;
    if (s.outcome_b != "applied") out += "  b: " + s.outcome_b;
    out += "\n";
  }
  return out;
}

std::string overflow_text(const Comparison& c) {
  if (!c.overflow) return "";
  return fmt::format("first result that {} cannot hold: {}, step {}: {:.3g} in f64, inf here\n",
                     name_of(c.overflow->dtype), place_of(*c.overflow), c.overflow_step, c.overflow->beyond);
}

std::string ops_text(const Comparison& c) {
  if (c.forward_calls + c.backward_calls == 0) return "ops of b: none was looked at\n";
  std::string out = message("ops of b on their own inputs, against f64: ", c.forward_calls, " calls forward, ",
                            c.backward_calls, " backward");
  if (!c.outside) {
    return out + fmt::format(": all within their bounds\n  closest: {}: {:.0f} % of its bound, relative error {:.2e}\n",
                             place_of(*c.closest), 100 * c.closest->of_bound, c.closest->error);
  }
  const std::string times =
      std::isfinite(c.outside->of_bound) ? fmt::format("{:.1f} times its bound", c.outside->of_bound) : "not finite";
  return out + fmt::format("\nfirst op outside its bound: {}, step {}: {}, relative error {:.2e}\n",
                           place_of(*c.outside), c.outside_step, times, c.outside->error);
}

std::string accumulated_text(const Comparison& c) {
  std::string out = "accumulated through all ops before, b against a:\n";
  for (const Accumulated& a : c.accumulated) {
    out += fmt::format("  {:<18} {:.2e} in step 1, {:.2e} in step {}\n", a.layer, a.first, a.last, c.steps.back().step);
  }
  return out;
}

Json error_json(const std::optional<OpError>& e) {
  if (!e) return {};
  return Json::object()
      .set("op", e->op)
      .set("scope", e->scope)
      .set("tensor", e->tensor)
      .set("pass", e->backward ? "backward" : "forward")
      .set("dtype", name_of(e->dtype))
      .set("relative_error", e->error)
      .set("of_bound", e->of_bound);
}

}  // namespace

std::string comparison_text(const Comparison& c) {
  return message("a = ", c.a, ", b = ", c.b, " (policy ", c.policy, "): the same start, the same batches\n") +
         steps_text(c) + ops_text(c) + overflow_text(c) + accumulated_text(c);
}

Json comparison_json(const Comparison& c) {
  Json steps = Json::array(), accumulated = Json::array();
  for (const CompareStep& s : c.steps) {
    Json cosines = Json::object();
    for (size_t i = 0; i < c.layers.size(); ++i) cosines.set(c.layers[i], s.cosines[i]);
    steps.push(Json::object()
                   .set("step", s.step)
                   .set("loss_a", s.loss_a)
                   .set("loss_b", s.loss_b)
                   .set("gap", s.gap())
                   .set("outcome_a", s.outcome_a)
                   .set("outcome_b", s.outcome_b)
                   .set("cosine", s.cosine)
                   .set("cosines", std::move(cosines)));
  }
  for (const Accumulated& a : c.accumulated) {
    accumulated.push(Json::object().set("layer", a.layer).set("first", a.first).set("last", a.last));
  }
  Json overflow = error_json(c.overflow);
  if (c.overflow) overflow.set("true_value", c.overflow->beyond).set("step", c.overflow_step);
  Json outside = error_json(c.outside);
  if (c.outside) outside.set("step", c.outside_step);
  return Json::object()
      .set("a", c.a)
      .set("b", c.b)
      .set("policy", c.policy)
      .set("steps", std::move(steps))
      .set("ops", Json::object()
                      .set("forward_calls", c.forward_calls)
                      .set("backward_calls", c.backward_calls)
                      .set("outside", std::move(outside))
                      .set("overflow", std::move(overflow))
                      .set("closest", error_json(c.closest)))
      .set("accumulated", std::move(accumulated));
}

}  // namespace mixtape::inspect
