// Trainer: the loop. A user derives from it and overrides a hook, without copying the loop.
#pragma once

#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "amp/grad_scaler.h"
#include "data/loader.h"
#include "models/classifier.h"
#include "optim/schedule.h"
#include "tools/config/config.h"
#include "tools/trainer/checkpoint.h"
#include "tools/trainer/evaluate.h"
#include "tools/trainer/log.h"
#include "tools/trainer/metrics.h"
#include "tools/trainer/progress.h"
#include "tools/trainer/run_dir.h"
#include "tools/trainer/run_state.h"
#include "tools/trainer/setup.h"
#include "tools/trainer/signals.h"
#include "tools/trainer/task.h"

namespace mixtape::trainer {

/// What one attempted update did: the fields of a step event (log.jsonl).
struct StepReport {
  int64_t step = 0;       ///< attempted updates, this one included
  int64_t updates = 0;    ///< applied ones, this one included
  int64_t epoch = 0;      ///< from 1
  double loss = 0;        ///< mean over the items of the window
  double grad_norm = 0;   ///< of all unscaled gradients together, before clipping; NaN without a finite loss
  double lr = 0;          ///< that this step used, or would have
  double loss_scale = 1;  ///< the same
  int64_t tokens = 0;     ///< of the window, without padding
  double seconds = 0;     ///< from its first batch to the updated weights
  optim::StepResult result = optim::StepResult::applied;
  std::vector<std::string> nonfinite = {};  ///< after a skip: parameters whose gradients are not finite, or "loss"
  int64_t attempt = 1;                      ///< at this step: amp.retry_overflow makes several
  bool retried = false;                     ///< an overflow whose batches run again: the step goes on
  std::optional<double> lost_updates = {};  ///< Optimizer::lost_updates() of an applied step
  std::string culprit = {};  ///< after a loss that is not finite, at the first such step in a row: what began it
};

struct EvalReport {
  int64_t step = 0;
  std::string split;
  const Metrics& metrics;
  bool best = false;  ///< better than all before, by trainer.metric
};

struct TrainResult {
  std::optional<Metrics> val, test;  ///< of the best model
  int64_t best_step = 0;
  int64_t steps = 0, updates = 0, skipped = 0;
  int64_t tokens = 0;
  double seconds = 0;  ///< of training steps alone
  bool stopped_early = false;
  int interrupted_by = 0;  ///< the signal after which the run saved itself and stopped; 0: it came to its end
};

/// Where a run goes on.
struct ResumePoint {
  RunState state;
  LogEnd log;
  std::vector<Change> changes;  ///< of the trajectory, that somebody allowed
};

class RunReport;

class Trainer {
 public:
  /// What the loop works with. The references must outlive it.
  struct Parts {
    const config::Config& config;
    const data::Tokenizer& tokenizer;
    const models::BertClassifier& model;
    Progress& progress;
    std::unique_ptr<optim::Optimizer> optimizer = nullptr;  ///< null: the one of the configuration
    Trajectory trajectory = {};                             ///< what checkpoints say of the configuration
    Signals* signals = nullptr;                             ///< polled after each micro-batch; null: none are heard
  };
  /// Throws E-SCHEDULE and E-POLICY… (config) for what would only fail later.
  Trainer(Parts parts, Task task);
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;
  virtual ~Trainer();

  const RunPlan& plan() const { return plan_; }
  /// Before run(): goes on where a checkpoint of `dir` left off, with the same bits. best/ is made anew where it is not
  /// that of the checkpoint. Throws kind model (E-CHECKPOINT, E-OPTIM-STATE) for a checkpoint of another model.
  void resume(const RunDir& dir, const Checkpoint& checkpoint, ResumePoint from);

  /// Trains to the end and evaluates, once. `dir` gets log.jsonl, checkpoints, best/ and metrics.json; the model is
  /// left with the weights of best/. A full disk is said once and the run goes on; if the last save still fails after
  /// some waiting, E-IO-NOSPACE (io) is thrown. Throws E-DIVERGED (diverged) after `amp.max_consecutive_skips` steps in
  /// a row that were not finite, however many attempts each had; checkpoints and best/ then stay as they are. A signal
  /// makes it save and return.
  TrainResult run(const RunDir& dir);

  // --- in place of run(): a run, or a part of it, once more, to be looked at; nothing is written anywhere ---
  /// Before replay(): weights, moments and counters are those of a checkpoint. Throws as resume() does.
  void load(const Checkpoint& checkpoint, const RunState& state);
  /// Takes steps as run() does until so many were attempted, without evaluating. Throws E-DIVERGED as run() does.
  void replay(int64_t steps);
  /// The next step without its update: its gradients at this loss scale, what would have become of it, and all is as
  /// before. An attempt of amp.retry_overflow is one by itself.
  StepReport try_step(double scale);
  std::vector<data::Batch> next_batches() const;  ///< of the next step, one for each micro-step
  const amp::ScalerState& scaler_state() const { return scaler_.state(); }
  const amp::ScalerOptions& scaling() const { return scaler_.options(); }

 protected:
  /// Before the forward of each micro-batch; again when its step is tried again (amp.retry_overflow).
  virtual void on_batch(const data::Batch& batch);
  /// Makes the gradients of one micro-batch: `loss` is the sum of its items' losses over the items of the whole window.
  /// Overriders use scaler() for every loss that they sweep, and forward() for another pass; where there are more
  /// scalers, GradScaler::sweep with optimizer(), so that each finds its own overflows.
  virtual void backward(const Tensor& loss, const data::Batch& batch);
  /// After the last backward of a step, while its gradients stand in the leaves.
  virtual void on_gradients(const StepReport& report);
  virtual void on_step(const StepReport& report);
  virtual void on_eval(const EvalReport& report);
  /// `directory` was just written: a checkpoint, or best/.
  virtual void on_checkpoint(const std::string& directory);

  /// The loss of a batch of the running window, under autocast, with the dropout masks of the running micro-step.
  Tensor forward(const data::Batch& batch) const;
  const models::BertClassifier& model() const { return parts_.model; }
  optim::Optimizer& optimizer() { return *parts_.optimizer; }
  amp::GradScaler& scaler() { return scaler_; }
  /// In a constructor: a scaler for a loss of its own, beside scaler(). A step is applied when the losses and gradients
  /// of all are finite; each moves its own scale by what it found, and is kept in the checkpoints under its name, which
  /// resume() and load() want to find. Throws E-SCALER for a name that is empty or taken.
  amp::GradScaler& add_scaler(const std::string& name, const amp::ScalerOptions& options = {});

 private:
  struct NamedScaler {
    NamedScaler(std::string its_name, const amp::ScalerOptions& options) : name(std::move(its_name)), scaler(options) {}
    std::string name;
    amp::GradScaler scaler;
  };
  /// The batches of an epoch, cut into steps.
  struct Epoch {
    int64_t number = 0;  // from 0
    data::BatchPlan batches;
    std::vector<data::Window> windows;
  };
  Epoch current_epoch() const;
  const data::Window& next_window(const Epoch& epoch) const;
  void train_epoch();
  void take_step(const Epoch& epoch, const data::Window& window);
  StepReport train_step(const Epoch& epoch, const data::Window& window);
  StepReport attempt_step(const Epoch& epoch, const data::Window& window);
  StepReport begin_step(const Epoch& epoch, const data::Window& window);
  data::Batch begin_micro_step(const Epoch& epoch, const data::Window& window, int64_t step, int64_t micro);
  StepReport make_gradients(const Epoch& epoch, const data::Window& window);
  bool is_tried_again(const StepReport& report);
  std::vector<amp::ScalerState> scaler_states() const;
  void end_step(const StepReport& report);
  void end_attempt();
  void count_step(const StepReport& report);
  void end_round(int64_t step);
  void between_steps();

  // trainer_there.cpp: on a device the host enqueues steps and learns later what became of them
  struct Waiting {
    StepReport report;  // what the host knows
    int64_t epoch;
    data::Window window;
    std::vector<Tensor> losses;
    optim::GradientNorm norm;
    optim::Outcome outcome;
  };
  bool learns_later() const;
  void enqueue_step(const Epoch& epoch, const data::Window& window);
  bool answers_are_due() const;
  void settle_steps();
  StepReport report_of(const Waiting& step) const;
  std::string culprit_of(const Waiting& step);
  bool evaluation_is_due() const;
  void evaluate_on_val();
  bool is_better(const Metrics& metrics) const;
  bool finished() const;
  TrainResult finish();
  EvaluateOptions evaluation_of(const std::string& split) const;

  // trainer_save.cpp
  RunState state() const;
  bool is_saved() const { return saved_at_ == result_.steps && saved_evaluated_at_ == evaluated_at_; }
  bool save_is_due() const;
  void save();
  void save_or_throw();
  bool attempt(const std::function<void()>& work);
  void insist(const std::function<void()>& work);
  void export_best();
  void export_kept_best();
  void keep_best();
  void restore_best(const RunDir& dir, const RunState::Best& best);
  void take_up(const RunState& state);
  TrainResult interrupted(int signal);

  Parts parts_;
  const config::TrainerConfig& options_;
  Task task_;
  data::Loader loader_;
  RunPlan plan_;
  Precision precision_;
  amp::GradScaler scaler_;
  std::deque<NamedScaler> more_scalers_;
  std::vector<amp::GradScaler*> others_;  // the same, as a round wants them
  optim::Schedule schedule_;

  const RunDir* dir_ = nullptr;                                  // from run() on
  std::unique_ptr<RunReport> report_;                            // the same
  double window_items_ = 1;                                      // rows of the running window
  RngCoordinates coordinates_;                                   // of the running micro-step
  std::optional<std::vector<amp::ScalerState>> scalers_before_;  // a step that is going on: where it began
  int64_t evaluated_at_ = 0, evaluations_since_best_ = 0;
  std::vector<Waiting> waiting_;  // steps that were enqueued
  double waiting_since_ = 0;
  std::string culprit_;  // of the first loss that was not finite in a row of such
  TrainResult result_;

  std::optional<ResumePoint> from_;
  int64_t saved_at_ = -1, saved_evaluated_at_ = -1;
  std::string best_weights_;     // hash_of_tensors of the best parameters
  bool best_is_new_ = false;     // the model's weights are the best and not in best/ yet
  NamedTensors kept_best_ = {};  // copies of the best weights, while the disk is too full for best/
  bool disk_is_full_ = false;    // and that was said
};

}  // namespace mixtape::trainer
