#include "tools/inspect/at_step.h"

#include <cstdlib>
#include <filesystem>
#include <optional>

#include "amp/autocast.h"
#include "autograd/backward.h"
#include "core/error.h"
#include "core/kernels/parallel.h"
#include "tools/inspect/log_events.h"
#include "tools/trainer/hash.h"
#include "tools/trainer/task.h"
#include "tools/trainer/trainer.h"

namespace mixtape::inspect {
namespace {

namespace fs = std::filesystem;

/// What ends a replay: it is where it should be.
struct AllVisited {};

/// While it lives, parameters are f32 and have no gradients; afterwards they are as they were, bit for bit.
class Borrowed {
 public:
  explicit Borrowed(NamedTensors parameters) : parameters_(std::move(parameters)) {
    for (const NamedTensor& p : parameters_) {
      was_.push_back({p.tensor.dtype(), p.tensor.leaf().gradient});
      if (is_low(p.tensor.dtype())) p.tensor.store_as(DType::f32);
      p.tensor.leaf().gradient = {};
    }
  }
  ~Borrowed() {
    for (size_t i = 0; i < was_.size(); ++i) {
      if (parameters_[i].tensor.dtype() != was_[i].dtype) parameters_[i].tensor.store_as(was_[i].dtype);
      parameters_[i].tensor.leaf().gradient = was_[i].gradient;
    }
  }
  Borrowed(const Borrowed&) = delete;
  Borrowed& operator=(const Borrowed&) = delete;

 private:
  struct Was {
    DType dtype;
    Gradient gradient;
  };
  NamedTensors parameters_;
  std::vector<Was> was_;
};

/// The loop of a run, which stops before the update of each wanted step, at its last micro-batch.
class PausingTrainer : public trainer::Trainer {
 public:
  PausingTrainer(Parts parts, trainer::Task task, std::vector<int64_t> steps, const Visit& visit,
                 trainer::Activity& activity)
      : Trainer(std::move(parts), std::move(task)),
        config_(parts.config),
        steps_(std::move(steps)),
        visit_(visit),
        activity_(activity) {}
  void begin_after(int64_t step) { done_ = step; }

 protected:
  void on_batch(const data::Batch& batch) override {
    if (done_ + 1 != steps_[next_]) return;
    batches_.push_back(batch);
    if (std::ssize(batches_) < micro_batches(done_ + 1)) return;
    {
      const Borrowed borrowed(model().parameters());
      visit_(PausedStep({.config = config_,
                         .model = model(),
                         .step = done_ + 1,
                         .loss_scale = scaler().scale(),
                         .batches = std::move(batches_)}));
    }
    batches_ = {};
    if (++next_ == steps_.size()) throw AllVisited();
  }
  void on_step(const trainer::StepReport& report) override {
    done_ = report.step;
    activity_.done(done_);
  }

 private:
  int64_t micro_batches(int64_t step) const {
    const auto at = static_cast<size_t>((step - 1) % plan().steps_per_epoch);
    return data::accumulation_windows(plan().batches_per_epoch, config_.trainer.gradient_accumulation_steps)[at].count;
  }

  const config::Config& config_;
  const std::vector<int64_t> steps_;
  const Visit& visit_;
  trainer::Activity& activity_;
  int64_t done_ = 0;
  size_t next_ = 0;
  std::vector<data::Batch> batches_;
};

/// Where the replay may write what a run writes.
class ScratchRun {
 public:
  ScratchRun() : path_((fs::temp_directory_path() / "mixtape-replay-XXXXXX").string()) {
    if (::mkdtemp(path_.data()) == nullptr) {
      fail(ErrorKind::io, "E-IO-DIR", path_ + ": no directory could be made there; TMPDIR names another place");
    }
    dir_ = trainer::RunDir::create(path_, false);
  }
  ~ScratchRun() {
    dir_.reset();
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  ScratchRun(const ScratchRun&) = delete;
  ScratchRun& operator=(const ScratchRun&) = delete;
  const trainer::RunDir& dir() const { return *dir_; }

 private:
  std::string path_;
  std::optional<trainer::RunDir> dir_;
};

[[noreturn]] void refuse_step(const std::string& what) { fail(ErrorKind::config, "E-INSPECT-STEP", what); }

void expect_steps(const std::vector<int64_t>& steps, int64_t last, const std::string& whose) {
  for (const int64_t step : steps) {
    if (step < 1) refuse_step(message("step ", step, ": steps count from 1"));
    if (step > last) refuse_step(message("step ", step, ": ", whose, " ends at step ", last));
  }
}

/// What a replay goes on from.
struct StartOfPauses {
  std::optional<trainer::Checkpoint> checkpoint;
  trainer::RunState state;
};

/// Evaluations and saves change nothing that is looked at; patience could only end the run earlier.
void leave_out_evaluations(config::TrainerConfig& config) {
  config.eval_strategy = config::EvalStrategy::no;
  config.eval_steps = 0;
  config.save_steps = 0;
  config.early_stopping_patience = 0;
}

[[noreturn]] void refuse_changes(const std::string& dir, const std::string& what) {
  fail(ErrorKind::config, "E-INSPECT-CHANGED", message(dir, ": the steps cannot be repeated as they were, for ", what));
}

void expect_unchanged(const std::string& dir, const config::Config& config, const models::BertClassifier& model,
                      const trainer::RunState& state) {
  const std::vector<trainer::Change> changes = trainer::changes_between(
      state.trajectory, trainer::trajectory_of(config, trainer::hash_of_tensors(model.parameters())));
  if (!changes.empty()) {
    refuse_changes(dir, "this is not as it was (was -> now):\n" + trainer::text_of(changes));
  }
}

}  // namespace

int64_t PausedStep::rows() const {
  int64_t rows = 0;
  for (const data::Batch& batch : parts_.batches) rows += batch.rows;
  return rows;
}

double PausedStep::run(const std::shared_ptr<const CastRule>& rule, double scale) const {
  for (const NamedTensor& parameter : model().parameters()) parameter.tensor.leaf().gradient = {};
  const auto items = static_cast<double>(rows());
  double sum = 0;
  for (size_t micro = 0; micro < parts_.batches.size(); ++micro) {
    const RngGuard rng({.seed = static_cast<uint64_t>(config().trainer.seed),
                        .stream = rng_stream::dropout,
                        .step = static_cast<uint32_t>(step()),
                        .micro_step = static_cast<uint32_t>(micro)});
    const Tensor loss = [&] {
      const amp::Autocast autocast(rule);
      return model().loss(parts_.batches[micro], items, true);
    }();
    sum += loss.item();
    autograd::backward(autograd::ScaledLoss{loss, scale});
  }
  return sum;
}

namespace {

/// What visit_steps and visit_steps_of_run share; `start_of` is asked once the model has its start weights.
Origin run_with_pauses(const config::Config& config, const std::vector<int64_t>& steps, trainer::Progress& progress,
                       const Visit& visit,
                       const std::function<StartOfPauses(const models::BertClassifier&)>& start_of) {
  kernels::set_thread_count(static_cast<int>(config.threads));
  const data::Tokenizer tokenizer = trainer::make_tokenizer(config.tokenizer);
  trainer::Task task = trainer::read_task(config, tokenizer, progress);
  expect_steps(steps, trainer::make_plan(config, task.train.rows()).steps, "the run");
  const auto model = trainer::make_model(config, tokenizer.vocab().size(), task.class_names, progress);
  const StartOfPauses start = start_of(*model);
  const ScratchRun scratch;
  trainer::Progress silent(trainer::Verbosity::quiet);
  trainer::Activity activity(progress, message("training up to step ", steps.back(), ", done"), steps.back());
  PausingTrainer run({.config = config, .tokenizer = tokenizer, .model = *model, .progress = silent}, std::move(task),
                     steps, visit, activity);
  if (start.checkpoint) {
    run.begin_after(start.state.step);
    run.resume(scratch.dir(), *start.checkpoint, {.state = start.state, .log = {}, .changes = {}});
  }
  try {
    (void)run.run(scratch.dir());
  } catch (const AllVisited&) {
  }
  return {.checkpoint = start.state.step};
}

}  // namespace

Origin visit_steps(config::Config config, const std::vector<int64_t>& steps, trainer::Progress& progress,
                   const Visit& visit) {
  trainer::take_from_pretrained(config);
  leave_out_evaluations(config.trainer);
  return run_with_pauses(config, steps, progress, visit, [](const models::BertClassifier&) { return StartOfPauses(); });
}

Origin visit_steps_of_run(const std::string& path, const std::vector<int64_t>& steps, trainer::Progress& progress,
                          const Visit& visit) {
  const trainer::RunDir dir = trainer::RunDir::open(path);
  config::Config config = config::load_config(dir.path("config.json"), {});
  trainer::take_from_pretrained(config);
  const trainer::Checkpoints checkpoints(dir.path());
  const trainer::Checkpoints::Found newest = checkpoints.newest();
  const LogEvents log = read_log_events(dir.path());
  const int64_t done = std::max(newest.checkpoint ? newest.checkpoint->manifest.step : 0, last_step_of(log));
  expect_steps(steps, done, path);

  config::Config replayed = config;
  leave_out_evaluations(replayed.trainer);
  return run_with_pauses(replayed, steps, progress, visit, [&](const models::BertClassifier& model) {
    if (newest.checkpoint) expect_unchanged(path, config, model, trainer::read_state(*newest.checkpoint));
    StartOfPauses start;
    start.checkpoint = checkpoints.newest(steps.front()).checkpoint;
    if (start.checkpoint) start.state = trainer::read_state(*start.checkpoint);
    start.state.best.reset();  // resume() would see to best/
    for (const LogEvent& event : log.events) {
      const int64_t at = event.integer("step").value_or(0);
      if (event.name != "change" || at <= start.state.step) continue;
      refuse_changes(path, message("the run went on after step ", at, " with another ", event.text("key"),
                                   ", and no checkpoint from then on stands before step ", steps.front()));
    }
    return start;
  });
}

}  // namespace mixtape::inspect
