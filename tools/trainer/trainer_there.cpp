// Steps on a device: the host enqueues one after the other and asks for what became of them when somebody wants to
// know, at each log line, evaluation and save.
#include <cmath>
#include <limits>
#include <utility>

#include "optim/clip.h"
#include "optim/device_step.h"
#include "tools/trainer/nonfinite.h"
#include "tools/trainer/trainer.h"

namespace mixtape::trainer {
namespace {

constexpr size_t most_waiting = 64;  // steps that a signal or an error may have to wait for

}  // namespace

/// Where an answer decides how a step goes on, the host must have it.
bool Trainer::learns_later() const {
  return parts_.optimizer->on_device() && others_.empty() && !parts_.config.amp.retry_overflow;
}

void Trainer::enqueue_step(const Epoch& epoch, const data::Window& window) {
  if (waiting_.empty()) waiting_since_ = parts_.progress.now();
  StepReport report = begin_step(epoch, window);
  std::vector<Tensor> losses;
  for (int64_t micro = 0; micro < window.count; ++micro) {
    const data::Batch batch = begin_micro_step(epoch, window, report.step, micro);
    on_batch(batch);
    losses.push_back(forward(batch));
    report.tokens += batch.tokens;
    backward(losses.back(), batch);
    if (parts_.signals != nullptr) parts_.signals->poll();
  }
  on_gradients(report);
  optim::GradientNorm norm = optim::clip_grad_norm(optimizer(), options_.max_grad_norm);
  optim::Outcome outcome = scaler_.step(optimizer());
  schedule_.advance(outcome);
  result_.steps = report.step;
  waiting_.push_back({std::move(report), epoch.number, window, std::move(losses), std::move(norm), std::move(outcome)});
  end_round(result_.steps);
}

bool Trainer::answers_are_due() const {
  return waiting_.size() >= most_waiting || result_.steps % options_.logging_steps == 0 || evaluation_is_due() ||
         save_is_due() || result_.steps >= plan_.steps;
}

StepReport Trainer::report_of(const Waiting& step) const {
  StepReport report = step.report;
  const optim::StepRecord& record = step.outcome.read()->record;
  for (const Tensor& loss : step.losses) report.loss += loss.item();
  report.result = record.result;
  report.lr = record.lr;
  report.loss_scale = record.scale;
  report.updates = result_.updates + (step.outcome.applied() ? 1 : 0);
  report.grad_norm = step.norm;
  if (step.outcome.applied() && record.wanted > 0) {
    report.lost_updates = static_cast<double>(record.lost) / static_cast<double>(record.wanted);
  }
  if (report.result == optim::StepResult::skipped_overflow) report.nonfinite = step.outcome.read()->nonfinite;
  if (report.result == optim::StepResult::skipped_nonfinite_loss) {
    report.nonfinite = {"loss"};
    report.grad_norm = std::numeric_limits<double>::quiet_NaN();
  }
  return report;
}

/// The forward once more; its weights are as they were, unless a later step has changed them.
std::string Trainer::culprit_of(const Waiting& step) {
  const Epoch epoch{.number = step.epoch, .batches = loader_.plan(static_cast<uint32_t>(step.epoch)), .windows = {}};
  (void)begin_step(epoch, step.window);
  size_t bad = 0;
  while (bad + 1 < step.losses.size() && std::isfinite(step.losses[bad].item())) ++bad;
  const data::Batch batch = begin_micro_step(epoch, step.window, step.report.step, static_cast<int64_t>(bad));
  return first_nonfinite(model().parameters(), [&] { (void)forward(batch); });
}

void Trainer::settle_steps() {
  if (waiting_.empty()) return;
  const std::vector<Waiting> steps = std::exchange(waiting_, {});
  (void)steps.back().outcome.get();  // waits for all
  const double seconds = (parts_.progress.now() - waiting_since_) / static_cast<double>(steps.size());
  for (const Waiting& step : steps) {
    StepReport report = report_of(step);
    report.seconds = seconds;
    const bool bad = report.result == optim::StepResult::skipped_nonfinite_loss;
    if (bad && culprit_.empty()) culprit_ = report.culprit = culprit_of(step);
    if (!bad) culprit_.clear();
    count_step(report);
  }
}

}  // namespace mixtape::trainer
