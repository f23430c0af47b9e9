// Replay: a step of a run once more, exactly, to be looked at. Batches, masks and the loss scale are pure functions of
// (seed, step), and weights those of the newest checkpoint before it, so nothing has to be recorded. Writes nothing.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "core/op.h"
#include "data/batch.h"
#include "models/classifier.h"
#include "tools/config/config.h"
#include "tools/inspect/run_log.h"
#include "tools/trainer/inputs.h"
#include "tools/trainer/trainer.h"

namespace mixtape::inspect {

/// What is called while a step runs; empty functions are not called.
struct Watch {
  Observer* observer = nullptr;
  std::function<void(const data::Batch& batch)> on_batch = {};               ///< before each micro-batch
  std::function<void(const trainer::StepReport& report)> on_gradients = {};  ///< while they stand in the leaves
  std::function<void(const trainer::StepReport& report)> on_step = {};       ///< after the update
};

class Replay {
 public:
  /// A run directory, as it was: also of a run that was stopped or still goes on. Sets the thread count that the run
  /// had. Throws E-RUN-DIR (model) where there is none, E-REPLAY-CHANGED (data) when a file that the run read is gone
  /// or another one now, and E-REPLAY-WEIGHTS (model) when its start weights are.
  static Replay of_run(const std::string& dir, trainer::Progress& progress);
  /// The run that a configuration would make.
  static Replay of_config(const config::Config& config, trainer::Progress& progress);
  Replay(Replay&&) noexcept;
  ~Replay();

  /// Brings the model to just before this step, from where it stands or, of a run, the newest checkpoint that is
  /// nearer. Throws E-REPLAY-STEP (config) for a step that lies behind it or that the run never had, and E-REPLAY-RANGE
  /// (model) for one that ran under values which the run later went on without.
  void go_to(int64_t step);
  /// Takes the next step, with its update.
  void take(const Watch& watch);
  /// The next step without its update, as often as one likes: at loss_scale(), or another one.
  trainer::StepReport look(const Watch& watch) { return look(watch, loss_scale()); }
  trainer::StepReport look(const Watch& watch, double scale);

  int64_t next_step() const;
  std::vector<data::Batch> next_batches() const;  ///< of that step, one for each micro-step
  double loss_scale() const { return scaler_state().scale.scale; }
  const amp::ScalerState& scaler_state() const;
  const amp::ScalerOptions& scaling() const;
  const config::Config& config() const;
  const models::BertClassifier& model() const;
  const trainer::RunPlan& plan() const;
  int64_t from_checkpoint() const;  ///< the step of the checkpoint that go_to() began at; 0: the start weights
  const LoggedRun& log() const;     ///< of a run
  /// "" or how this machine differs from the run's: then bits may, too.
  const std::string& machine_note() const;

 private:
  struct Parts;
  explicit Replay(std::unique_ptr<Parts> parts);
  void load_checkpoint(int64_t step);

  std::unique_ptr<Parts> parts_;
};

}  // namespace mixtape::inspect
