// A run on the tiny data, inside the test: what its hooks saw, and how it goes on.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "core/kernels/parallel.h"
#include "tests/tiny_run.h"
#include "tools/trainer/checkpoint.h"
#include "tools/trainer/hash.h"
#include "tools/trainer/trainer.h"

namespace mixtape::tests {

/// Remembers the hashes of everything after each step; `at_step` is called there.
class WatchedTrainer : public trainer::Trainer {
 public:
  using Trainer::Trainer;
  std::vector<trainer::StepReport> steps;
  std::vector<std::string> weights, moments;
  std::function<void(int64_t step)> at_step = [](int64_t) {};

 protected:
  void on_step(const trainer::StepReport& report) override {
    steps.push_back(report);
    weights.push_back(trainer::hash_of_tensors(model().parameters()));
    moments.push_back(trainer::hash_of_tensors(optimizer().state()));
    at_step(report.step);
  }
};

/// All parts of a run of trainer T in the directory NAME of the tiny data: new, or going on.
template <class T>
struct RunOf {
  trainer::Progress progress{trainer::Verbosity::quiet};
  config::Config config;
  data::Tokenizer tokenizer;
  trainer::Task task;
  std::unique_ptr<models::BertClassifier> model;
  trainer::Trajectory trajectory;
  trainer::RunDir dir;
  T trainer;

  RunOf(const TinyRun& tiny, const std::string& name, const std::vector<std::string>& sets,
        trainer::Signals* signals = nullptr)
      : config(tiny.config(sets)),
        tokenizer(trainer::make_tokenizer(config.tokenizer)),
        task(trainer::read_task(config, tokenizer, progress)),
        model(trainer::make_model(config, tokenizer.vocab().size(), task.class_names, progress)),
        trajectory(trainer::trajectory_of(config, trainer::hash_of_tensors(model->parameters()))),
        dir(open(tiny.path(name))),
        trainer({.config = config,
                 .tokenizer = tokenizer,
                 .model = *model,
                 .progress = progress,
                 .trajectory = trajectory,
                 .signals = signals},
                std::move(task)) {
    kernels::set_thread_count(1);
  }

  /// From the newest complete checkpoint, if there is one. Returns its step, or 0.
  int64_t recover() {
    const trainer::Checkpoints::Found found = trainer::Checkpoints(dir.path()).newest();
    if (!found.checkpoint) return 0;
    trainer::ResumePoint from;
    from.state = trainer::read_state(*found.checkpoint);
    from.changes = trainer::changes_between(from.state.trajectory, trajectory);
    from.log = trainer::end_of_log(dir.path("log.jsonl"), from.state.step, from.state.evaluated_at);
    trainer.resume(dir, *found.checkpoint, std::move(from));
    return found.checkpoint->manifest.step;
  }
  trainer::TrainResult run() { return trainer.run(dir); }

 private:
  static trainer::RunDir open(const std::string& path) {
    std::optional<trainer::RunDir> old = trainer::RunDir::recover(path);
    return old ? *old : trainer::RunDir::create(path, false);
  }
};
using WatchedRun = RunOf<WatchedTrainer>;

/// metrics.json without what depends on the clock.
inline std::string metrics_of(const std::string& dir) {
  nlohmann::json metrics = nlohmann::json::parse(slurp(dir + "/metrics.json"));
  for (const char* key : {"seconds", "tokens_per_s", "peak_bytes", "peak_rss_bytes"}) metrics["train"].erase(key);
  return metrics.dump();
}

}  // namespace mixtape::tests
