#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "core/error.h"
#include "tools/inspect/scale.h"

namespace mixtape::inspect {
namespace {

using trainer::Json;

constexpr size_t strip_width = 64, most_strip_rows = 16, most_listed = 12;

std::string scale_name(double scale) {
  int exponent = 0;
  if (std::frexp(scale, &exponent) == 0.5) return fmt::format("2^{}", exponent - 1);
  return fmt::format("{}", scale);
}

std::string counted(size_t n, const char* what) { return fmt::format("{} {}{}", n, what, n == 1 ? "" : "s"); }

/// The steps of a run on a line of characters.
class Strip {
 public:
  explicit Strip(int64_t steps) : steps_(std::max<int64_t>(1, steps)) {
    width_ = static_cast<size_t>(std::min<int64_t>(steps_, strip_width));
  }
  size_t width() const { return width_; }
  size_t column(int64_t step) const {
    const int64_t at = (std::clamp<int64_t>(step, 1, steps_) - 1) * static_cast<int64_t>(width_) / steps_;
    return static_cast<size_t>(at);
  }
  /// "" where there is nothing to mark.
  std::string marks(const char* name, const std::vector<int64_t>& at, char mark) const {
    if (at.empty()) return "";
    std::string line(width_, ' ');
    for (const int64_t step : at) line[column(step)] = mark;
    line.erase(line.find_last_of(mark) + 1);
    return fmt::format("{:>9} {}\n", name, line);
  }

 private:
  int64_t steps_;
  size_t width_ = 1;
};

/// A row for each power of two, the highest first; a column shows all scales that are known in its steps.
std::string strip_chart(const ScaleTimeline& run) {
  const Strip strip(run.steps);
  std::vector<std::set<int>> levels(strip.width());
  int low = std::ilogb(run.points.front().scale), high = low;
  for (size_t i = 0; i < run.points.size(); ++i) {
    const ScalePoint& point = run.points[i];
    const bool is_last = i + 1 == run.points.size();
    low = std::min(low, std::ilogb(point.scale));
    high = std::max(high, std::ilogb(point.scale));
    levels[strip.column(point.step)].insert(std::ilogb(point.scale));
    const std::optional<double> after = scale_between(point, is_last ? nullptr : &run.points[i + 1]);
    const size_t end = is_last ? strip.width() : strip.column(run.points[i + 1].step);
    for (size_t c = strip.column(point.step) + 1; after && c < end; ++c) levels[c].insert(std::ilogb(*after));
  }
  const int height = (high - low) / static_cast<int>(most_strip_rows) + 1;  // powers of two in a row
  std::string out;
  for (int row = (high - low) / height; row >= 0; --row) {
    const int from = low + row * height;
    std::string line;
    for (const std::set<int>& at : levels) {
      const auto first = at.lower_bound(from);
      line += first != at.end() && *first < from + height ? '#' : ' ';
    }
    line.erase(line.find_last_not_of(' ') + 1);
    out += fmt::format("{:>8} |{}\n", fmt::format("2^{}", from), line);
  }
  out += fmt::format("{:>8} +{}\n{:>9} 1{:>{}}\n", "", std::string(strip.width(), '-'), "step",
                     strip.width() > 1 ? message(run.steps) : "", strip.width() - 1);
  std::vector<int64_t> skips, again, evaluations;
  for (const SkippedStep& skip : run.skips) (skip.retried ? again : skips).push_back(skip.step);
  for (const ScaleAtEvaluation& at : run.evaluations) evaluations.push_back(at.step);
  return out + strip.marks("skipped", skips, 'x') + strip.marks("tried", again, 't') +
         strip.marks("evaluated", evaluations, 'e') + strip.marks("resumed", run.resumes, 'r');
}

/// A line for each, as far as they fit.
template <class Item, class Line>
std::string listed(const std::string& title, const std::vector<Item>& items, const Line& line) {
  if (items.empty()) return "";
  std::string out = title + ":\n";
  for (size_t i = 0; i < std::min(items.size(), most_listed); ++i) out += "  " + line(items[i]) + "\n";
  if (items.size() > most_listed) out += fmt::format("  and {} more: --json has all\n", items.size() - most_listed);
  return out;
}

std::string move_line(const ScaleMove& move) {
  return fmt::format("{} -> {} after step {}, seen at step {}", scale_name(move.from), scale_name(move.to), move.after,
                     move.by);
}

std::string skip_line(const SkippedStep& skip) {
  std::string out = fmt::format("step {} at {}: ", skip.step, scale_name(skip.scale));
  if (skip.outcome == "skipped_nonfinite_loss") return out + "the loss was not finite, which no scale cures";
  out += fmt::format("{} not finite, {} first", counted(static_cast<size_t>(skip.parameters), "gradient"), skip.first);
  return out + (skip.retried ? "; tried again" : "");
}

std::string evaluation_line(const ScaleAtEvaluation& at) {
  std::string out = fmt::format("step {}", at.step);
  if (at.scale) out += " at " + scale_name(*at.scale);
  if (at.loss) out += fmt::format(": val loss {:.4f}", *at.loss);
  if (!at.flushed) return out;
  const bool is_tiny = *at.flushed > 0 && *at.flushed < 0.5e-5;
  return out + fmt::format(", {} % of the activation gradients flushed to 0",
                           is_tiny ? "<0.001" : fmt::format("{:.3f}", 100 * *at.flushed));
}

std::string first_line(const ScaleTimeline& run) {
  std::string out = fmt::format("{}: amp.dtype {}, ", run.dir, run.amp);
  if (run.amp != "fp16")
    out += run.amp == "off" ? "nothing is in 16 bits: the loss scale is 1"
                            : "which has the range of f32 and needs no loss scale: it is 1";
  else
    out += run.dynamic ? "a loss scale that moves" : "a fixed loss scale";
  return out + "\n";
}

Json moves_json(const std::vector<ScaleMove>& moves) {
  Json out = Json::array();
  for (const ScaleMove& move : moves) {
    out.push(Json::object().set("after", move.after).set("by", move.by).set("from", move.from).set("to", move.to));
  }
  return out;
}

Json optional_json(const std::optional<double>& value) { return value ? Json(*value) : Json(); }

}  // namespace

std::string scale_text(const ScaleTimeline& run) {
  std::string out = first_line(run);
  for (const int64_t line : run.damaged) out += fmt::format("line {} of log.jsonl is no event, and left out\n", line);
  if (run.points.empty()) return out + "no step stands in log.jsonl, or it is missing\n";
  const auto again = static_cast<size_t>(
      std::count_if(run.skips.begin(), run.skips.end(), [](const SkippedStep& skip) { return skip.retried; }));
  out += fmt::format("{}, {}, {}, {}{}\n", counted(static_cast<size_t>(run.steps), "step"),
                     counted(run.growths.size(), "growth"), counted(run.backoffs.size(), "back-off"),
                     counted(run.skips.size() - again, "skipped step"),
                     again > 0 ? ", " + counted(again, "attempt") + " tried again" : "");
  out += "\n" + strip_chart(run) + "\n";
  out += listed("growths", run.growths, move_line) + listed("back-offs", run.backoffs, move_line);
  out += listed(again > 0 ? "overflows" : "skipped", run.skips, skip_line) +
         listed("evaluations", run.evaluations, evaluation_line);
  const bool measured = std::any_of(run.evaluations.begin(), run.evaluations.end(),
                                    [](const ScaleAtEvaluation& at) { return at.flushed.has_value(); });
  if (run.amp == "fp16" && !run.evaluations.empty() && !measured) {
    out += "--flushed repeats the steps before them, and counts the gradients that were flushed to 0\n";
  }
  return out;
}

Json scale_json(const ScaleTimeline& run) {
  Json points = Json::array(), skips = Json::array(), evaluations = Json::array();
  for (const ScalePoint& point : run.points) {
    points.push(Json::object().set("step", point.step).set("scale", point.scale));
  }
  for (const SkippedStep& skip : run.skips) {
    skips.push(Json::object()
                   .set("step", skip.step)
                   .set("scale", skip.scale)
                   .set("outcome", skip.outcome)
                   .set("retried", skip.retried)
                   .set("parameters", skip.parameters)
                   .set("first", skip.first));
  }
  for (const ScaleAtEvaluation& at : run.evaluations) {
    evaluations.push(Json::object()
                         .set("step", at.step)
                         .set("scale", optional_json(at.scale))
                         .set("loss", optional_json(at.loss))
                         .set("flushed_share", optional_json(at.flushed)));
  }
  return Json::object()
      .set("amp", run.amp)
      .set("dynamic", run.dynamic)
      .set("steps", run.steps)
      .set("updates", run.updates)
      .set("points", std::move(points))
      .set("growths", moves_json(run.growths))
      .set("backoffs", moves_json(run.backoffs))
      .set("skips", std::move(skips))
      .set("evaluations", std::move(evaluations))
      .set("resumes", run.resumes)
      .set("damaged_lines", run.damaged);
}

}  // namespace mixtape::inspect
