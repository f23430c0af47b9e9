#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "tools/teach/break.h"
#include "tools/teach/format.h"

namespace mixtape::teach {
namespace {

std::string percent(double share) { return fmt::format("{:.1f} %", 100 * share); }

/// Lines of at most 110 columns, all but the first indented.
std::string folded(const std::string& text, const std::string& indent = "") {
  std::string out, line;
  size_t start = 0;
  while (start < text.size()) {
    const size_t end = std::min(text.find(' ', start), text.size());
    const std::string word = text.substr(start, end - start);
    if (!line.empty() && line.size() + 1 + word.size() > 110) {
      out += line + "\n";
      line = indent + word;
    } else {
      line += (line.empty() ? "" : " ") + word;
    }
    start = end + 1;
  }
  return out + line + "\n";
}

std::string seen_master(const BreakLesson& l) {
  return fmt::format(
      "In bf16 alone {} of the weights, and {} of the norm weights (which stand at exactly 1), never took another "
      "value: "
      "half a step of the grid is more than the optimizer wanted to move them. With the fp32 master {} stood still, "
      "and "
      "the bf16 copy that the model computes with follows.",
      percent(l.off.never_moved), percent(l.off.norms_at_one), percent(l.on.never_moved));
}

std::string seen_scale(const BreakLesson& l) {
  return fmt::format(
      "Without a scale {} of the 16-bit gradients are 0, with one {}: they were too small for fp16, and weights "
      "behind them do not learn. Nothing is skipped and nothing is said, for 0 is a good number.",
      percent(l.off.zero_gradients), percent(l.on.zero_gradients));
}

std::string seen_fixed_scale(const BreakLesson& l) {
  const std::string scale = power_or_decimal(l.options.scale);
  if (l.off.skipped == 0) {
    const std::string lost = percent(l.off.zero_gradients), kept = percent(l.on.zero_gradients);
    return fmt::format(
        "At the scale {} nothing overflows: both runs apply all {} steps. Of the gradients {} became 0 in fp16, with "
        "the "
        "dynamic scale {}. Try --scale 1e9 for a scale that is too high, and --scale 1e-9 for one too low.",
        scale, l.off.loss.size(), lost, kept);
  }
  return fmt::format(
      "At the fixed scale {} gradients overflow in {} of {} steps, and each is skipped: the weights stay as they are. "
      "The dynamic scale pays {} steps to come down to {}, and the rest of the training is as any other.",
      scale, l.off.skipped, l.off.loss.size(), l.on.skipped, power_or_decimal(l.on.end_scale));
}

std::string seen_clip(const BreakLesson& l) {
  return fmt::format(
      "The scaled gradient is cut to norm 1 and then divided by 65536: what is applied has norm {:.2g} on average, "
      "against {:.2g} in the right order. (A gradient of scaled norm 65536, whose true norm is 1 and needs no "
      "clipping, "
      "ends at {:.2g}.)",
      l.off.norm, l.on.norm, norm_after_clip_scaled(65536, 65536, 1));
}

std::string seen_softmax(const BreakLesson& l) {
  const auto bad = std::find_if(l.off.loss.begin(), l.off.loss.end(), [](double x) { return !std::isfinite(x); });
  if (bad == l.off.loss.end()) return "No score has grown beyond 11.09 in this run, so that both are alike.";
  return fmt::format(
      "The loss falls as it should until step {}, where a score passes 11.09: its exp is inf in fp16, and inf / inf is "
      "NaN. No loss scale cures a forward: {} of {} steps are skipped, and {} of the test sentences, those with such a "
      "word, have no answer any more. In fp32 the same formula goes on.",
      bad - l.off.loss.begin() + 1, l.off.skipped, l.off.loss.size(), percent(l.off.unanswered));
}

std::string seen_sum(const BreakLesson& l) {
  return fmt::format(
      "The sum of 256 squares is above 65504, so that the variance is inf, 1 / sqrt of it 0, and the norm's output 0 "
      "for "
      "every word. Nothing overflows afterwards and {} steps are skipped: the model learns from zeros, and its loss "
      "stays "
      "at {:.3f}, where ln 2 is {:.3f}.",
      l.off.skipped, last_loss(l.off), std::log(2.0));
}

std::string seen_sigmoid(const BreakLesson& l) {
  const double floor = (std::log1p(std::exp(-1.0)) + std::log(2.0)) / 2;
  return fmt::format(
      "The loss takes a probability for a logit: what it sees as the probability of class 1 lies between {:.3f} and "
      "{:.3f}, never below a half, so that everything is called class 1. On balanced classes its loss cannot fall "
      "below "
      "{:.3f}, and a batch with more of class 1 is all that passes it; with logits the loss ends at {:.3f}.",
      l.off.lowest, l.off.highest, floor, last_loss(l.on));
}

struct Row {
  std::string_view what;
  std::string off, on;
};

std::vector<Row> rows_of(const BreakLesson& l) {
  const auto number = [](double x) { return std::isnan(x) ? "NaN" : fmt::format("{:.3f}", x); };
  const auto steps = [](const BreakRun& run) { return fmt::format("{} of {}", run.skipped, run.loss.size()); };
  const auto row = [&](std::string_view what, const auto& show) { return Row{what, show(l.off), show(l.on)}; };
  std::vector<Row> out = {
      row("loss, first ten steps", [&](const BreakRun& r) { return number(first_loss(r)); }),
      row("loss, last ten steps", [&](const BreakRun& r) { return number(last_loss(r)); }),
      row("macro-F1 of 256 sentences", [&](const BreakRun& r) { return number(r.macro_f1); }),
      row("weights that never moved", [](const BreakRun& r) { return percent(r.never_moved); }),
      row("steps skipped", steps),
      row("norm of a gradient applied", [](const BreakRun& r) { return fmt::format("{:.2g}", r.norm); }),
  };
  if (l.off.zero_gradients + l.on.zero_gradients > 0)
    out.push_back(row("16-bit gradients that are 0", [](const BreakRun& r) { return percent(r.zero_gradients); }));
  return out;
}

trainer::Json run_json(const BreakRun& run) {
  return trainer::Json::object()
      .set("name", run.name)
      .set("first_loss", first_loss(run))
      .set("last_loss", last_loss(run))
      .set("macro_f1", run.macro_f1)
      .set("unanswered", run.unanswered)
      .set("never_moved", run.never_moved)
      .set("norms_at_one", run.norms_at_one)
      .set("skipped", run.skipped)
      .set("end_scale", run.end_scale)
      .set("zero_gradients", run.zero_gradients)
      .set("norm", run.norm)
      .set("lowest", run.lowest)
      .set("highest", run.highest)
      .set("loss", run.loss);
}

}  // namespace

std::string break_seen(const BreakLesson& lesson) {
  constexpr std::array seen = {seen_master,  seen_scale, seen_fixed_scale, seen_clip,
                               seen_softmax, seen_sum,   seen_sigmoid};
  return seen[static_cast<size_t>(lesson.options.what)](lesson);
}

std::string break_text(const BreakLesson& lesson) {
  const BreakFacts& facts = lesson.facts();
  std::string out = folded(fmt::format("{} {} steps of 16 sentences, twice, seed {}.", facts.setting,
                                       lesson.off.loss.size(), lesson.options.seed));
  out += "\n" + folded(break_seen(lesson)) + "\n";
  out += fmt::format("{:<30}{:<16}{}\n", "", lesson.off.name, lesson.on.name);
  for (const Row& row : rows_of(lesson)) out += fmt::format("{:<30}{:<16}{}\n", row.what, row.off, row.on);
  out += fmt::format("\nloss; x {}, o {}, * both\n", lesson.off.name, lesson.on.name);
  out += two_curves(lesson.off.loss, lesson.on.loss);
  out += "\n" + folded("in the wild: " + std::string(facts.story), "  ");
  return out + folded(fmt::format("healed by {}, {}: {}", facts.file, facts.function, facts.heals), "  ");
}

trainer::Json break_json(const BreakLesson& lesson) {
  const BreakFacts& facts = lesson.facts();
  trainer::Json out = trainer::Json::object();
  if (facts.what == Break::clip_before_unscale)
    out.set("clipped_then_unscaled", norm_after_clip_scaled(65536, 65536, 1));
  return out.set("break", facts.name)
      .set("seed", lesson.options.seed)
      .set("setting", facts.setting)
      .set("seen", break_seen(lesson))
      .set("story", facts.story)
      .set("healed_by",
           trainer::Json::object().set("file", facts.file).set("function", facts.function).set("how", facts.heals))
      .set("off", run_json(lesson.off))
      .set("on", run_json(lesson.on));
}

}  // namespace mixtape::teach
