#include <fmt/format.h>

#include <cmath>

#include "core/dtype.h"
#include "tools/inspect/overflow.h"

namespace mixtape::inspect {
namespace {

using trainer::Json;

constexpr double kMostShare = 0.7;  // texts are named until they carry that much
constexpr size_t kMostTexts = 4;

/// 589824 -> "589,824".
std::string grouped(int64_t count) {
  std::string out = message(count);
  for (int64_t at = std::ssize(out) - 3; at > 0; at -= 3) out.insert(static_cast<size_t>(at), ",");
  return out;
}

std::string_view format_name(DType dtype) {
  switch (dtype) {
    case DType::f16: return "fp16";
    case DType::bf16: return "bf16";
    case DType::f32: return "fp32";
    default: return name_of(dtype);
  }
}

std::string first_of(const std::vector<std::string>& names) {
  return names.front() + (names.size() > 1 ? message(" and ", std::ssize(names) - 1, " more") : "");
}

std::string what_happened(const Overflow& o) {
  std::string scale = message("at scale ", o.scale);
  if (o.next_scale != o.scale) scale += message(" -> ", o.next_scale);
  const char* fate = o.retried ? "tried again" : "skipped";
  if (!o.forward_finite) return message("step ", o.step, " ", fate, ": the loss is not finite, ", scale, "\n");
  return message("step ", o.step, " ", fate, ": ", std::ssize(o.parameters), " of ", o.parameter_count,
                 " gradients non-finite ", scale, "\n");
}

std::string place_of(const Culprit& c) {
  const bool forward = c.kind == TensorKind::activation;
  std::string out = message("first non-finite in ", forward ? "forward" : "backward", " order: ", name_of(c.kind),
                            " at ", c.scope.empty() ? "the top" : c.scope, ", op ", c.op);
  if (!c.fused_in.empty()) out += message(" (inside ", c.fused_in, ")");
  out += message(": ", c.tensor, ", ");
  if (c.inf > 0) out += message("inf ", grouped(c.inf));
  if (c.nan > 0) out += message(c.inf > 0 ? ", " : "", "nan ", grouped(c.nan));
  out += message(" of ", grouped(c.elements), "\n");
  if (!c.parameter.empty()) out += message("its parameter: ", c.parameter, "\n");
  return out;
}

std::string texts_of(const std::vector<SampleShare>& samples) {
  double share = 0;
  std::string rows;
  size_t named = 0;
  while (named < samples.size() && named < kMostTexts && share < kMostShare) {
    share += samples[named].share;
    rows += message(named == 0 ? "" : ", ", samples[named].row);
    ++named;
  }
  if (named == 0) return "";
  return message("; ", named == 1 ? "text " : "texts ", rows, " of the training split ",
                 named == 1 ? "carries " : "carry ", fmt::format("{:.0f} % of it", 100 * share));
}

std::string cause_of(const Culprit& c, double scale) {
  const double largest = -lowest(c.dtype);
  std::string out = message("cause: ", format_name(c.dtype), " store of the ", c.tensor, ": ");
  if (!c.true_value)
    out += "its true value cannot be computed alone";
  else if (!std::isfinite(*c.true_value))
    out += "not finite in f64 either: the formula has no value there";
  else if (*c.true_value <= largest)
    out += fmt::format("true value {:.3g} fits {:g}: the overflow is inside {}", *c.true_value, largest, c.op);
  else
    out += fmt::format("true value {:.3g} > {:.6g}", *c.true_value, largest);
  const bool scaled = c.kind != TensorKind::activation && scale != 1 && c.op != "unscaling";
  if (scaled && c.true_value && std::isfinite(*c.true_value)) {
    out += fmt::format(" (unscaled {:.3g})", *c.true_value / scale);
  }
  return out + texts_of(c.samples) + "\n";
}

std::string remedy_of(const Overflow& o) {
  std::string out;
  if (o.passes_at) {
    out = message("would pass at scale ", *o.passes_at);
    if (std::isfinite(o.headroom)) out += fmt::format(" (headroom {:.1f}x)", o.headroom);
    out += "; ";
  } else if (o.forward_finite && !o.parameters.empty()) {
    out = "would pass at no scale that was tried; ";
  }
  return out +
         (o.forward_finite ? fmt::format("forward was finite, loss {:.4g}\n", o.loss) : "forward was not finite\n");
}

std::string verdict_text(const Overflow& o) {
  const char* what = o.retried ? (o.skips == 1 ? " step tried again" : " steps skipped or tried again")
                               : (o.skips == 1 ? " skip" : " skips");
  const std::string count = message(o.skips, what, " in the last ", o.window, o.window == 1 ? " step" : " steps");
  switch (o.verdict) {
    case Verdict::parameters:
      return message(first_of(o.bad_weights),
                     " held inf or NaN before this step: no scale helps; go back to a checkpoint ", "from before");
    case Verdict::forward:
      if (o.culprit && o.culprit->dtype != DType::f16) {
        return "the forward itself is beyond the range of f32, which bf16 shares: no loss scale and no other dtype "
               "helps; "
               "look at the learning rate and the data";
      }
      return "the forward itself is not finite: no loss scale helps; bf16, or amp.overrides that keep the op above in "
             "full, would";
    case Verdict::unscaled:
      return message("the run scales nothing: the gradient itself is beyond the format (", count, ")");
    case Verdict::fixed: return message("the loss scale is static and too high for this step (", count, ")");
    case Verdict::floor:
      return message("the scale is at its floor, amp.min_scale, and too high all the same (", count,
                     "): lower the floor, or look at the gradient above");
    case Verdict::unreached:
      return message("none of the scales that the next back-offs give fits (", count,
                     "): lower amp.backoff_factor, or look at the gradient above");
    case Verdict::ended:
      return message("a lower scale helps, but the run ended here, amp.max_consecutive_skips in a row (", count, "): ",
                     o.forgiven > 0 ? message("amp.hysteresis lets ", o.forgiven,
                                              " overflows pass before the scale falls, lower it")
                                    : "begin at a lower amp.init_scale",
                     ", or raise amp.max_consecutive_skips");
    case Verdict::frequent:
      return message("back-off that helps, but one of many (", count,
                     "): raise amp.growth_interval, or lower amp.max_scale");
    case Verdict::harmless:
      return message("harmless back-off (", o.at_start ? "the scale is finding its height; " : "", count, ")");
  }
  return "";
}

Json culprit_json(const Culprit& c, double scale) {
  Json samples = Json::array();
  for (const SampleShare& s : c.samples) {
    samples.push(Json::object().set("row", s.row).set("count", s.count).set("share", s.share));
  }
  Json out = Json::object()
                 .set("kind", name_of(c.kind))
                 .set("op", c.op)
                 .set("scope", c.scope)
                 .set("tensor", c.tensor)
                 .set("fused_in", c.fused_in.empty() ? Json() : Json(c.fused_in))
                 .set("parameter", c.parameter.empty() ? Json() : Json(c.parameter))
                 .set("dtype", name_of(c.dtype))
                 .set("largest", -lowest(c.dtype))
                 .set("inf", c.inf)
                 .set("nan", c.nan)
                 .set("elements", c.elements)
                 .set("micro_batch", c.micro_batch);
  if (c.true_value) {
    const bool scaled = c.kind != TensorKind::activation && c.op != "unscaling";
    out.set("true_value", *c.true_value).set("unscaled", *c.true_value / (scaled ? scale : 1));
  }
  return out.set("samples", std::move(samples));
}

}  // namespace

std::string overflow_text(const Overflow& o) {
  std::string out = what_happened(o);
  if (o.culprit) out += place_of(*o.culprit) + cause_of(*o.culprit, o.scale);
  out += remedy_of(o) + "verdict: " + verdict_text(o) + "\n";
  out += o.replayed_from > 0 ? message("replayed exactly, from the checkpoint of step ", o.replayed_from, "\n")
                             : "replayed exactly, from the start weights\n";
  return out + (o.note.empty() ? "" : "note: " + o.note + "\n");
}

Json overflow_json(const Overflow& o) {
  Json out = Json::object()
                 .set("step", o.step)
                 .set("outcome", o.outcome)
                 .set("retried", o.retried)
                 .set("loss_scale", o.scale)
                 .set("next_loss_scale", o.next_scale)
                 .set("replayed_from", o.replayed_from)
                 .set("parameters", o.parameters)
                 .set("parameter_count", o.parameter_count)
                 .set("nonfinite_weights", o.bad_weights)
                 .set("loss", o.loss)
                 .set("forward_finite", o.forward_finite)
                 .set("culprit", o.culprit ? culprit_json(*o.culprit, o.scale) : Json());
  out.set("passes_at", o.passes_at ? Json(*o.passes_at) : Json());
  out.set("headroom", o.passes_at && std::isfinite(o.headroom) ? Json(o.headroom) : Json());
  return out.set("skips", o.skips)
      .set("window", o.window)
      .set("at_start", o.at_start)
      .set("verdict", name_of(o.verdict))
      .set("why", verdict_text(o));
}

}  // namespace mixtape::inspect
