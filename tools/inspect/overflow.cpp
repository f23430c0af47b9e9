#include "tools/inspect/overflow.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "core/error.h"
#include "tools/config/fields.h"
#include "tools/trainer/report.h"

namespace mixtape::inspect {
namespace {

using trainer::many_skips;
using trainer::skip_window;

constexpr int kMostTries = 64;

/// Where the scale would have to be: back-offs until the replay fits.
void find_fitting_scale(Replay& replay, Overflow& out) {
  const amp::ScaleOptions& options = replay.scaling().scale;
  const double factor = options.dynamic ? options.backoff : 0.5;
  double scale = out.scale * factor;
  for (int i = 0; i < kMostTries && scale >= 0x1p-100; ++i, scale *= factor) {
    const Trial trial = try_scale(replay, scale);
    if (!trial.fits) continue;
    out.passes_at = scale;
    out.headroom = trial.headroom;
    return;
  }
}

Verdict verdict_of(const Overflow& overflow, const Replay& replay) {
  const amp::ScaleOptions& options = replay.scaling().scale;
  if (!overflow.bad_weights.empty()) return Verdict::parameters;
  if (!overflow.forward_finite) return Verdict::forward;
  if (replay.config().amp.dtype != config::AmpDtype::fp16) return Verdict::unscaled;
  if (!options.dynamic) return Verdict::fixed;
  if (overflow.scale <= options.min) return Verdict::floor;
  if (!overflow.passes_at) return Verdict::unreached;
  if (*overflow.passes_at < options.min) return Verdict::floor;
  if (overflow.ended_run) return Verdict::ended;
  return overflow.skips > many_skips && !overflow.at_start ? Verdict::frequent : Verdict::harmless;
}

/// Steps that overflowed, ascending: each once, however often it was tried; or those alone that were skipped in the
/// end.
std::vector<int64_t> overflowed_steps(const LoggedRun& log, bool lost_alone = false) {
  std::set<int64_t> steps;
  for (const LoggedSkip& skip : log.skips) {
    if (!lost_alone || !skip.retried) steps.insert(skip.step);
  }
  return {steps.begin(), steps.end()};
}

std::string list_of(const std::vector<int64_t>& steps) {
  constexpr int64_t most = 20;
  std::string out;
  for (int64_t i = 0; i < std::min(most, std::ssize(steps)); ++i) {
    out += message(i == 0 ? "" : ", ", steps[static_cast<size_t>(i)]);
  }
  return std::ssize(steps) > most ? out + message(" and ", std::ssize(steps) - most, " more") : out;
}

/// The first event of the step that was asked for, or of the last one.
const LoggedSkip& chosen(const LoggedRun& log, const std::string& dir, std::optional<int64_t> step) {
  const auto refuse = [&](const std::string& what) {
    fail(ErrorKind::config, "E-REPLAY-NOT-SKIPPED", message(dir, ": ", what));
  };
  if (log.skips.empty())
    refuse(message("none of its ", log.last_step, " logged steps was skipped: nothing overflowed"));
  const int64_t wanted = step.value_or(log.skips.back().step);
  for (const LoggedSkip& skip : log.skips) {
    if (skip.step == wanted) return skip;
  }
  const bool any_again = std::any_of(log.skips.begin(), log.skips.end(), [](const auto& skip) { return skip.retried; });
  const bool there = wanted >= 1 && wanted <= log.last_step;
  refuse(message("step ", wanted, there ? " was not skipped" : message(" is none of its ", log.last_step, " steps"),
                 any_again ? "; skipped or tried again were " : "; skipped were ", list_of(overflowed_steps(log))));
  return log.skips.front();
}

void expect_same(const Overflow& now, const LoggedSkip& then, const std::string& dir, const Replay& replay) {
  std::string differs;
  if (replay.loss_scale() != then.loss_scale)
    differs = message("the loss scale was ", then.loss_scale, ", the replay's is ", replay.loss_scale());
  else if (now.outcome != then.outcome)
    differs = message("the outcome was ", then.outcome, ", the replay's is ", now.outcome);
  else if (now.parameters != then.parameters)
    differs = message(std::ssize(then.parameters), " gradients were not finite (", config::joined(then.parameters),
                      "), in the replay ", std::ssize(now.parameters), " are");
  if (differs.empty()) return;
  fail(ErrorKind::model, "E-REPLAY-DIFFERS",
       message(dir, ": the replay of step ", then.step, " is not what log.jsonl says: ", differs, ". ",
               replay.machine_note().empty() ? "the run's files were changed, or its build was another"
                                             : replay.machine_note()));
}

}  // namespace

std::string_view name_of(Verdict verdict) {
  switch (verdict) {
    case Verdict::parameters: return "parameters not finite";
    case Verdict::forward: return "forward not finite";
    case Verdict::unscaled: return "no loss scale";
    case Verdict::fixed: return "static loss scale";
    case Verdict::floor: return "scale at its floor";
    case Verdict::unreached: return "no scale found";
    case Verdict::ended: return "the run ended here";
    case Verdict::frequent: return "frequent back-offs";
    case Verdict::harmless: return "harmless back-off";
  }
  return "";
}

Overflow explain_step(Replay& replay, double scale) {
  Overflow out;
  out.step = replay.next_step();
  out.replayed_from = replay.from_checkpoint();
  out.scale = scale;
  out.bad_weights = nonfinite_parameters(replay.model());
  out.parameter_count = std::ssize(replay.model().parameters());
  Search search = find_culprit(replay, scale);
  out.culprit = std::move(search.culprit);
  out.outcome = optim::name_of(search.report.result);
  out.parameters = search.report.nonfinite;
  out.loss = search.report.loss;
  out.forward_finite = std::isfinite(out.loss) && !(out.culprit && out.culprit->kind == TensorKind::activation);
  amp::ScaleState state = replay.scaler_state().scale;
  state.scale = scale;
  const bool overflow = search.report.result == optim::StepResult::skipped_overflow;
  out.next_scale = amp::next(replay.scaling().scale, state, overflow).scale;
  if (overflow && out.forward_finite) find_fitting_scale(replay, out);
  out.skips = out.window = 1;
  out.verdict = verdict_of(out, replay);
  out.note = replay.machine_note();
  return out;
}

Overflow why_overflow(const std::string& dir, std::optional<int64_t> step, trainer::Progress& progress) {
  const std::string path = trainer::RunDir::open(dir).path();
  const LoggedRun log = read_run_log(path);
  const LoggedSkip& skip = chosen(log, path, step);
  Replay replay = Replay::of_run(path, progress);
  replay.go_to(skip.step);
  Overflow out = explain_step(replay, skip.loss_scale);
  expect_same(out, skip, path, replay);
  out.retried = skip.retried;
  const std::vector<int64_t> overflowed = overflowed_steps(log), lost = overflowed_steps(log, true);
  const auto before = std::lower_bound(overflowed.begin(), overflowed.end(), skip.step);
  out.window = std::min(skip_window, skip.step);
  out.skips = before - std::upper_bound(overflowed.begin(), before, skip.step - skip_window) + 1;
  out.at_start = std::lower_bound(lost.begin(), lost.end(), skip.step) - lost.begin() == skip.step - 1;
  out.ended_run = log.diverged_at == skip.step;
  out.forgiven = replay.scaling().scale.hysteresis - 1;
  out.verdict = verdict_of(out, replay);
  return out;
}

}  // namespace mixtape::inspect
