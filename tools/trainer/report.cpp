#include "tools/trainer/report.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>

#include "core/allocator.h"

namespace mixtape::trainer {
namespace {

double per_second(int64_t count, double seconds) { return seconds > 0 ? static_cast<double>(count) / seconds : 0; }

/// The one that the sweep came to first: parameters stand in the order of the forward.
std::string first_of(const std::vector<std::string>& names) {
  const int64_t more = std::ssize(names) - 1;
  return names.empty() ? "nothing" : names.back() + (more > 0 ? message(" and ", more, " more") : "");
}

std::string plural(int64_t count, const char* what) { return message(count, " ", what, count == 1 ? "" : "s"); }

Json metrics_json(const Metrics& metrics, const std::vector<std::string>& class_names) {
  Json out = Json::object();
  metrics.append_to(out, class_names);
  return out;
}

/// "  offensive   precision 0.661  recall 0.612  F1 0.636  240 texts", a line for each class.
std::string class_table(const Metrics& metrics, const std::vector<std::string>& class_names) {
  size_t width = 0;
  for (const std::string& name : class_names) width = std::max(width, name.size());
  std::string out;
  for (size_t i = 0; i < class_names.size(); ++i) {
    const ClassScores& scores = metrics.classes[i];
    out += fmt::format("  {:{}}  precision {:.4f}  recall {:.4f}  F1 {:.4f}  {}\n", class_names[i], width,
                       scores.precision, scores.recall, scores.f1, plural(scores.support, "text"));
  }
  return out;
}

std::string cut_back(std::string path, const ResumePoint* from) {
  cut_log(path, from == nullptr ? LogEnd{} : from->log);
  return path;
}

}  // namespace

SkipMessages::SkipMessages(Progress& progress, const config::Config& config, std::string dir)
    : progress_(progress),
      dir_(std::move(dir)),
      scaling_(make_precision(config).scaler.scale),
      which_(config.amp.overflow_messages) {}

void SkipMessages::step(const StepReport& report) {
  const bool skipped = !report.nonfinite.empty();
  if (!report.culprit.empty()) {
    progress_.note(message("step ", report.step,
                           ": the loss is not finite, the step is skipped, no loss scale helps; the first tensor that ",
                           "was not finite: ", report.culprit));
  } else if (skipped && !started_ && report.result == optim::StepResult::skipped_overflow) {
    if (steps_at_start_ + attempts_at_start_ == 0) first_scale_ = report.loss_scale;
    ++(report.retried ? attempts_at_start_ : steps_at_start_);
  } else if (skipped && report.result == optim::StepResult::skipped_overflow) {
    say_later(report);
  }
  if (report.result != optim::StepResult::applied || started_) return;
  started_ = true;
  if (steps_at_start_ + attempts_at_start_ == 0 || which_ == config::OverflowMessages::none) return;
  const std::string skipped_ones = steps_at_start_ > 0 ? plural(steps_at_start_, "step") + " skipped" : "",
                    again = attempts_at_start_ > 0 ? plural(attempts_at_start_, "attempt") + " in vain" : "";
  progress_.note(message("loss scale ", first_scale_, " -> ", report.loss_scale, ": ", skipped_ones,
                         skipped_ones.empty() || again.empty() ? "" : ", ", again, " until the gradients fitted"));
}

void SkipMessages::say_later(const StepReport& report) {
  ++later_;
  const std::string why = verdict(report);
  if (which_ == config::OverflowMessages::none || (which_ == config::OverflowMessages::first && later_ > 1)) return;
  const bool one_of_several = report.retried || report.attempt > 1;
  progress_.note(message("step ", report.step, one_of_several ? message(", attempt ", report.attempt) : "",
                         ": overflow at loss scale ", report.loss_scale, " in ", first_of(report.nonfinite),
                         ", the step is ", report.retried ? "tried again" : "skipped", ": ", why,
                         "; mixtape inspect why-overflow ", dir_, " --step ", report.step, " shows its cause",
                         which_ == config::OverflowMessages::first ? " (later ones stand in log.jsonl)" : ""));
}

std::string SkipMessages::verdict(const StepReport& report) {
  if (recent_.empty() || recent_.back() != report.step) recent_.push_back(report.step);  // once, not each attempt
  std::erase_if(recent_, [&](int64_t step) { return step <= report.step - skip_window; });
  if (!scaling_.dynamic) return "this run's loss scale does not move";
  if (report.loss_scale <= scaling_.min) return "the scale is at its floor, amp.min_scale";
  const int64_t skips = std::ssize(recent_);
  if (skips > many_skips) return message(skips, " of the last ", skip_window, " steps, the scale grows too often");
  return "a harmless back-off";
}

void SkipMessages::resume(const RunState& state) {
  started_ = state.updates > 0;
  const int64_t overflows = state.scaler.skipped_overflow,
                steps = state.skipped - state.scaler.skipped_nonfinite;  // the others were tried again
  later_ = started_ ? overflows : 0;
  steps_at_start_ = started_ ? 0 : std::min(steps, overflows);
  attempts_at_start_ = started_ ? 0 : overflows - steps_at_start_;
  first_scale_ = state.scaler.scale.scale;
}

RunReport::RunReport(const config::Config& config, const RunPlan& plan, std::vector<std::string> class_names,
                     Device device, const RunDir& dir, Progress& progress, const ResumePoint* from)
    : config_(config),
      plan_(plan),
      class_names_(std::move(class_names)),
      device_(device),
      dir_(dir),
      progress_(progress),
      log_(cut_back(dir.path("log.jsonl"), from)),
      messages_(progress, config, dir.path()) {
  progress_.note(plan_.text());
  if (device_.is_cpu() && config_.amp.dtype == config::AmpDtype::fp16) {
    progress_.note("fp16 on the CPU is storage: converted, multiplied in f32, rounded once; it does not speed up");
  }
  begin(from);
}

void RunReport::begin(const ResumePoint* from) {
  if (from == nullptr) {
    log_.write(RunLog::event("start")
                   .set("steps", plan_.steps)
                   .set("steps_per_epoch", plan_.steps_per_epoch)
                   .set("epochs", plan_.epochs)
                   .set("warmup_steps", plan_.schedule.warmup));
    return;
  }
  skipped_ = from->state.skipped;
  messages_.resume(from->state);
  log_.write(RunLog::event("resume").set("step", from->state.step));
  for (const Change& change : from->changes) {
    log_.write(RunLog::event("change")
                   .set("step", from->state.step)
                   .set("key", change.key)
                   .set("before", change.before)
                   .set("now", change.now));
  }
  progress_.note(message("goes on after step ", from->state.step, " of ", plan_.steps));
}

void RunReport::overflow(const StepReport& report) {
  messages_.step(report);
  in_vain_.push_back(report);
}

void RunReport::step(const StepReport& report) {
  messages_.step(report);
  write_attempts();
  if (!report.nonfinite.empty()) write_skip(report);
  ++steps_;
  skipped_ += report.nonfinite.empty() ? 0 : 1;
  tokens_ += report.tokens;
  seconds_ += report.seconds;
  if (steps_ == 1) first_seconds_ = report.seconds;
  const bool due = report.step % config_.trainer.logging_steps == 0 || report.step == plan_.steps;
  unwritten_ = report;
  if (due) write_step(report);
  show(report, due);
}

void RunReport::write_step(const StepReport& report) {
  Json event = RunLog::event("step")
                   .set("step", report.step)
                   .set("updates", report.updates)
                   .set("epoch", report.epoch)
                   .set("loss", report.loss)
                   .set("grad_norm", report.grad_norm)
                   .set("lr", report.lr)
                   .set("loss_scale", report.loss_scale)
                   .set("outcome", optim::name_of(report.result))
                   .set("tokens", report.tokens)
                   .set("seconds", report.seconds)
                   .set("tokens_per_s", per_second(report.tokens, report.seconds))
                   .set("peak_bytes", allocator_of(device_).stats().peak_bytes);
  if (report.lost_updates) event.set("lost_updates", *report.lost_updates);
  log_.write(event);
  unwritten_.reset();
}

void RunReport::show(const StepReport& report, bool log_line) {
  StepStatus status{.epoch = report.epoch,
                    .epochs = plan_.epochs,
                    .step = report.step,
                    .steps = plan_.steps,
                    .loss = report.loss,
                    .grad_norm = report.grad_norm,
                    .lr = report.lr,
                    .loss_scale = report.loss_scale,
                    .skipped = skipped_,
                    .tokens_per_s = per_second(tokens_, seconds_)};
  // The first step also touches fresh memory and compiles kernels: it says nothing about the others.
  if (steps_ > 1) {
    const double mean = (seconds_ - first_seconds_) / static_cast<double>(steps_ - 1);
    status.eta_s = mean * static_cast<double>(plan_.steps - report.step);
  }
  progress_.step(status, log_line);
}

/// When their step is done: one that was stopped within begins anew, attempts and all, and the log is cut only behind
/// what it says of steps that stay.
void RunReport::write_attempts() {
  for (const StepReport& attempt : in_vain_) write_skip(attempt);
  in_vain_.clear();
}

void RunReport::write_skip(const StepReport& report) {
  Json event = RunLog::event("overflow")
                   .set("step", report.step)
                   .set("loss_scale", report.loss_scale)
                   .set("outcome", optim::name_of(report.result))
                   .set("parameters", report.nonfinite);
  if (report.retried || report.attempt > 1) event.set("attempt", report.attempt);
  if (report.retried) event.set("retried", true);
  log_.write(event);
  if (report.culprit.empty()) return;
  log_.write(RunLog::event("nonfinite_loss").set("step", report.step).set("tensor", report.culprit));
}

void RunReport::eval(const EvalReport& report) {
  Json event = RunLog::event("eval").set("step", report.step).set("split", report.split);
  report.metrics.append_to(event, class_names_);
  if (report.split == "val") event.set("best", report.best);
  log_.write(event);
  if (report.split != "val") return;  // test scores come last, with their classes
  progress_.note(
      message("val at step ", report.step, ": ", report.metrics.text(), report.best ? ", the best so far" : ""));
}

void RunReport::checkpoint(int64_t step, const std::string& kind, const std::string& path, double seconds) {
  log_.write(RunLog::event("checkpoint").set("step", step).set("kind", kind).set("path", path).set("seconds", seconds));
  progress_.detail("wrote " + dir_.path(path));
}

void RunReport::save_failed(int64_t step, const std::string& text) {
  log_.write(RunLog::event("save_failed").set("step", step).set("code", "E-IO-NOSPACE").set("text", text));
}

void RunReport::diverged(int64_t step, const std::string& text) {
  write_last_step();
  write_attempts();
  log_.write(RunLog::event("diverged").set("step", step).set("text", text));
}

void RunReport::interrupted(int64_t step, const std::string& signal) {
  log_.write(RunLog::event("interrupted").set("step", step).set("signal", signal));
}

void RunReport::write_last_step() {
  if (unwritten_) write_step(*unwritten_);
}

void RunReport::end(const TrainResult& result) {
  log_.write(RunLog::event("end").set("steps", result.steps).set("updates", result.updates));
}

void RunReport::write_metrics(const TrainResult& result) {
  log_.sync();
  const Json train = Json::object()
                         .set("seconds", result.seconds)
                         .set("tokens", result.tokens)
                         .set("tokens_per_s", per_second(result.tokens, result.seconds))
                         .set("peak_bytes", allocator_of(device_).stats().peak_bytes)
                         .set("peak_rss_bytes", peak_rss_bytes())
                         .set("steps", result.steps)
                         .set("updates", result.updates)
                         .set("skipped", result.skipped)
                         .set("stopped_early", result.stopped_early);
  dir_.write("metrics.json", Json::object()
                                 .set("val", metrics_json(*result.val, class_names_))
                                 .set("test", metrics_json(*result.test, class_names_))
                                 .set("best_step", result.best_step)
                                 .set("train", train)
                                 .pretty());
}

void RunReport::show_result(const TrainResult& result) {
  progress_.note(fmt::format("trained {} in {:.1f} s, {:.0f} tokens a second{}", plural(result.steps, "step"),
                             result.seconds, per_second(result.tokens, result.seconds),
                             result.stopped_early ? ", stopped early" : ""));
  progress_.note(message("test scores of step ", result.best_step, ": ", result.test->text(), "\n",
                         class_table(*result.test, class_names_)));
}

int64_t peak_rss_bytes() {
  rusage usage{};
  return ::getrusage(RUSAGE_SELF, &usage) == 0 ? int64_t{usage.ru_maxrss} * 1024 : 0;
}

}  // namespace mixtape::trainer
