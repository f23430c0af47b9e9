#include "tools/trainer/trainer.h"

#include <cmath>
#include <limits>

#include "amp/autocast.h"
#include "models/pretrained.h"
#include "optim/clip.h"
#include "tools/trainer/hash.h"
#include "tools/trainer/nonfinite.h"
#include "tools/trainer/report.h"

namespace mixtape::trainer {
namespace {

Trainer::Parts with_optimizer(Trainer::Parts parts) {
  if (!parts.optimizer) parts.optimizer = make_optimizer(parts.config, parts.model.parameters());
  return parts;
}

data::LoaderOptions loader_options(const config::Config& config, const data::Tokenizer& tokenizer, DType labels) {
  data::LoaderOptions options;
  options.plan = {.batch_size = config.trainer.per_device_train_batch_size,
                  .shuffle = config.data.shuffle,
                  .length_bucketing = config.data.length_bucketing,
                  .seed = static_cast<uint64_t>(config.trainer.seed)};
  options.collate = collate_options(config, tokenizer, labels);
  return options;
}

int64_t rows_of(const data::BatchPlan& batches, const data::Window& window) {
  int64_t rows = 0;
  for (int64_t i = 0; i < window.count; ++i) rows += std::ssize(batches[static_cast<size_t>(window.first + i)]);
  return rows;
}

/// A larger value is better.
double score_of(const Metrics& metrics, config::Metric metric) {
  switch (metric) {
    case config::Metric::macro_f1: return metrics.macro_f1;
    case config::Metric::accuracy: return metrics.accuracy;
    case config::Metric::loss: return -metrics.loss;
  }
  return 0;
}

}  // namespace

Trainer::Trainer(Parts parts, Task task)
    : parts_(with_optimizer(std::move(parts))),
      options_(parts_.config.trainer),
      task_(std::move(task)),
      loader_(std::move(task_.train), loader_options(parts_.config, parts_.tokenizer, parts_.model.label_dtype())),
      plan_(make_plan(parts_.config, loader_.texts().rows())),
      precision_(make_precision(parts_.config)),
      scaler_(precision_.scaler),
      schedule_(*parts_.optimizer, plan_.schedule) {}

Trainer::~Trainer() = default;

TrainResult Trainer::run(const RunDir& dir) {
  dir_ = &dir;
  report_ = std::make_unique<RunReport>(parts_.config, plan_, task_.class_names, parts_.model.device(), dir,
                                        parts_.progress, from_ ? &*from_ : nullptr);
  try {
    if (from_ && !from_->changes.empty()) save();
    if (from_) between_steps();
    while (!finished()) train_epoch();
    return finish();
  } catch (const Interrupted& stop) {
    return interrupted(stop.signal());
  }
}

Trainer::Epoch Trainer::current_epoch() const {
  Epoch epoch{.number = result_.steps / plan_.steps_per_epoch, .batches = {}, .windows = {}};
  epoch.batches = loader_.plan(static_cast<uint32_t>(epoch.number));
  epoch.windows = data::accumulation_windows(std::ssize(epoch.batches), options_.gradient_accumulation_steps);
  return epoch;
}

const data::Window& Trainer::next_window(const Epoch& epoch) const {
  return epoch.windows[static_cast<size_t>(result_.steps % plan_.steps_per_epoch)];
}

/// From where the run stands to the end of that epoch.
void Trainer::train_epoch() {
  const Epoch epoch = current_epoch();
  do {
    take_step(epoch, next_window(epoch));
    between_steps();
  } while (result_.steps % plan_.steps_per_epoch != 0 && !finished());
}

void Trainer::take_step(const Epoch& epoch, const data::Window& window) {
  if (!learns_later()) return end_step(train_step(epoch, window));
  enqueue_step(epoch, window);
  if (answers_are_due()) settle_steps();
}

/// The same batches run again, with the same masks, until their gradients fit or the scale falls no further.
StepReport Trainer::train_step(const Epoch& epoch, const data::Window& window) {
  const double started = parts_.progress.now();
  scalers_before_ = scaler_states();
  StepReport report = attempt_step(epoch, window);
  for (int64_t attempt = 2; is_tried_again(report); ++attempt) {
    report.retried = true;
    if (report_) report_->overflow(report);
    end_attempt();
    report = attempt_step(epoch, window);
    report.attempt = attempt;
  }
  report.seconds = parts_.progress.now() - started;
  return report;
}

bool Trainer::is_tried_again(const StepReport& report) {
  const auto falls = [](amp::GradScaler* scaler) { return scaler->will_fall(); };
  return parts_.config.amp.retry_overflow && report.result == optim::StepResult::skipped_overflow &&
         (falls(&scaler_) || std::any_of(others_.begin(), others_.end(), falls));
}

StepReport Trainer::begin_step(const Epoch& epoch, const data::Window& window) {
  window_items_ = static_cast<double>(rows_of(epoch.batches, window));
  return {.step = result_.steps + 1, .epoch = epoch.number + 1};
}

data::Batch Trainer::begin_micro_step(const Epoch& epoch, const data::Window& window, int64_t step, int64_t micro) {
  coordinates_ = {.seed = static_cast<uint64_t>(options_.seed),
                  .stream = rng_stream::dropout,
                  .step = static_cast<uint32_t>(step),
                  .micro_step = static_cast<uint32_t>(micro)};
  return data::to(loader_.batch(epoch.batches, static_cast<size_t>(window.first + micro)), model().device());
}

StepReport Trainer::make_gradients(const Epoch& epoch, const data::Window& window) {
  StepReport report = begin_step(epoch, window);
  report.updates = schedule_.updates();
  report.lr = schedule_.lr();
  report.loss_scale = scaler_.scale();
  for (int64_t micro = 0; micro < window.count; ++micro) {
    const data::Batch batch = begin_micro_step(epoch, window, report.step, micro);
    on_batch(batch);
    const Tensor loss = forward(batch);
    report.loss += loss.item();
    report.tokens += batch.tokens;
    if (!std::isfinite(report.loss) && culprit_.empty() && report.culprit.empty()) {
      report.culprit = first_nonfinite(model().parameters(), [&] { (void)forward(batch); });
    }
    backward(loss, batch);
    if (parts_.signals != nullptr) parts_.signals->poll();
  }
  on_gradients(report);
  return report;
}

StepReport Trainer::attempt_step(const Epoch& epoch, const data::Window& window) {
  StepReport report = make_gradients(epoch, window);
  report.grad_norm = optim::clip_grad_norm(optimizer(), options_.max_grad_norm);
  const optim::Outcome outcome = scaler_.step(optimizer(), others_);
  schedule_.advance(outcome);

  report.result = outcome.get();
  report.updates = schedule_.updates();
  if (outcome.applied()) report.lost_updates = optimizer().lost_updates();
  if (outcome.skipped()) report.nonfinite = scaler_.nonfinite();
  if (report.result == optim::StepResult::skipped_nonfinite_loss) {
    report.grad_norm = std::numeric_limits<double>::quiet_NaN();
    if (culprit_.empty()) culprit_ = report.culprit;
  } else {
    culprit_.clear();
  }
  return report;
}

amp::GradScaler& Trainer::add_scaler(const std::string& name, const amp::ScalerOptions& options) {
  const auto same = [&](const NamedScaler& other) { return other.name == name; };
  if (name.empty() || std::any_of(more_scalers_.begin(), more_scalers_.end(), same)) {
    fail(ErrorKind::internal, "E-SCALER",
         message("trainer: a scaler needs a name of its own, and '", name, "' is ", name.empty() ? "none" : "taken"));
  }
  others_.push_back(&more_scalers_.emplace_back(name, options).scaler);
  return *others_.back();
}

std::vector<amp::ScalerState> Trainer::scaler_states() const {
  std::vector<amp::ScalerState> states = {scaler_.state()};
  for (const NamedScaler& other : more_scalers_) states.push_back(other.scaler.state());
  return states;
}

Tensor Trainer::forward(const data::Batch& batch) const {
  const RngGuard rng(coordinates_);
  const amp::Autocast autocast(precision_.rule);
  return model().loss(batch, window_items_, true);
}

void Trainer::end_step(const StepReport& report) {
  count_step(report);
  end_round(report.step);
  scalers_before_.reset();
}

void Trainer::count_step(const StepReport& report) {
  result_.steps = std::max(result_.steps, report.step);
  result_.updates = report.updates;
  result_.tokens += report.tokens;
  result_.seconds += report.seconds;
  if (!report.nonfinite.empty()) ++result_.skipped;
  if (report_) report_->step(report);
  on_step(report);
}

/// The scales move, and the step goes on: it is none of those that amp.max_consecutive_skips counts yet.
void Trainer::end_attempt() {
  scaler_.end_attempt();
  for (amp::GradScaler* other : others_) {
    if (other->in_round()) other->end_attempt();
  }
}

void Trainer::end_round(int64_t step) {
  try {
    scaler_.update();
    for (amp::GradScaler* other : others_) {
      if (other->in_round()) other->update();
    }
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::diverged) throw;
    settle_steps();
    const std::string began = culprit_.empty() ? "" : "\n  the first tensor that was not finite: " + culprit_;
    if (report_) report_->diverged(step, error.what() + began);
    throw Error(error.kind(), error.code(), error.what() + began);
  }
}

void Trainer::between_steps() {
  if (evaluated_at_ != result_.steps && evaluation_is_due()) evaluate_on_val();
  if (finished()) report_->write_last_step();
  const bool asked = parts_.signals != nullptr && parts_.signals->take_save_request();
  if (asked) settle_steps();
  if (save_is_due() || (asked && !is_saved())) save();
  if (parts_.signals != nullptr) parts_.signals->poll();
}

bool Trainer::evaluation_is_due() const {
  switch (options_.eval_strategy) {
    case config::EvalStrategy::no: return false;
    case config::EvalStrategy::steps: return result_.steps % options_.eval_steps == 0;
    case config::EvalStrategy::epoch: return result_.steps % plan_.steps_per_epoch == 0;
  }
  return false;
}

void Trainer::evaluate_on_val() {
  const Metrics metrics = evaluate(model(), task_.val, evaluation_of("val"), parts_.progress);
  const EvalReport report{.step = result_.steps, .split = "val", .metrics = metrics, .best = is_better(metrics)};
  evaluated_at_ = result_.steps;
  ++evaluations_since_best_;
  if (report.best) {
    evaluations_since_best_ = 0;
    result_.val = metrics;
    result_.best_step = result_.steps;
    best_weights_ = hash_of_tensors(model().parameters());
    best_is_new_ = true;
    kept_best_.clear();
  }
  report_->eval(report);
  on_eval(report);
}

bool Trainer::is_better(const Metrics& metrics) const {
  if (!result_.val) return true;
  const double score = score_of(metrics, options_.metric), best = score_of(*result_.val, options_.metric);
  return score > best || (std::isnan(best) && !std::isnan(score));  // the earliest on a tie
}

bool Trainer::finished() const {
  const bool patience_is_out =
      options_.early_stopping_patience > 0 && evaluations_since_best_ >= options_.early_stopping_patience;
  return result_.steps >= plan_.steps || patience_is_out;
}

TrainResult Trainer::finish() {
  if (evaluated_at_ != result_.steps) evaluate_on_val();
  insist([&] { save_or_throw(); });
  result_.stopped_early = result_.steps < plan_.steps;
  if (result_.best_step != result_.steps) models::load_pretrained(model(), dir_->best());
  result_.test = evaluate(model(), task_.test, evaluation_of("test"), parts_.progress);
  const EvalReport report{.step = result_.best_step, .split = "test", .metrics = *result_.test, .best = true};
  report_->eval(report);
  on_eval(report);
  report_->end(result_);
  insist([&] { report_->write_metrics(result_); });  // last: it says that the run is finished
  report_->show_result(result_);
  return result_;
}

EvaluateOptions Trainer::evaluation_of(const std::string& split) const {
  return {.rule = precision_.rule, .pad_id = parts_.tokenizer.vocab().special().pad, .name = "evaluating " + split};
}

void Trainer::on_batch(const data::Batch&) {}

void Trainer::backward(const Tensor& loss, const data::Batch&) {
  if (others_.empty())
    autograd::backward(scaler_.scale(loss));  // the step looks anyway
  else
    scaler_.sweep(loss, optimizer());
}

void Trainer::on_gradients(const StepReport&) {}

void Trainer::on_step(const StepReport&) {}

void Trainer::on_eval(const EvalReport&) {}

void Trainer::on_checkpoint(const std::string&) {}

}  // namespace mixtape::trainer
