#include "tools/trainer/train.h"

#include <optional>

#include "core/error.h"
#include "core/kernels/parallel.h"
#include "tools/config/build_info.h"
#include "tools/config/show.h"
#include "tools/trainer/hash.h"
#include "tools/trainer/inputs.h"

namespace mixtape::trainer {
namespace {

Json build_json() {
  const config::BuildInfo build = config::build_info();
  return Json::object()
      .set("version", build.version)
      .set("compiler", build.compiler)
      .set("architecture", build.architecture)
      .set("instructions", build.instructions)
      .set("gemm", build.gemm);
}

Json machine_json() {
  const config::MachineInfo machine = config::machine_info();
  return Json::object()
      .set("processor", machine.cpu)
      .set("system", machine.system)
      .set("cores", machine.cores)
      .set("threads", kernels::thread_count())
      .set("memory_bytes", machine.memory)
      .set("instructions", machine.instructions);
}

Json data_hashes(const config::TaskConfig& task) {
  Json out = Json::object();
  for (const std::string& file : data::data_files(data_format(task), task.data_dir)) {
    out.set(file, hash_of_file(message(task.data_dir, "/", file)));
  }
  return out;
}

/// Where each value that is no default came from: config.json, the effective one, has them all as its own.
Json origins_json(const config::Config& config) {
  Json out = Json::object();
  for (const config::ShownValue& row : config::shown_values(config))
    if (config.origin(row.key).kind != config::Origin::Kind::by_default) out.set(row.key, row.origin);
  return out;
}

/// run.json: what a person needs to tell whether two runs are the same.
Json run_json(const config::Config& config, const models::BertClassifier& model, const std::string& start_weights,
              const Trajectory& trajectory) {
  Json keys = Json::object();
  for (const auto& [key, value] : trajectory) keys.set(key, value);
  return Json::object()
      .set("mixtape", build_json())
      .set("machine", machine_json())
      .set("parameters", model.parameter_count())
      .set("xxh3_128", Json::object()
                           .set("data", data_hashes(config.task))
                           .set("vocabulary", hash_of_file(config.tokenizer.vocab))
                           .set("start_weights", start_weights))
      .set("trajectory", std::move(keys))
      .set("origins", origins_json(config));
}

/// The run in DIR, if there is one to go on with, and its newest complete checkpoint.
struct Recovery {
  std::optional<RunDir> dir;
  std::optional<Checkpoint> checkpoint;
};

Recovery look_for_run(const std::string& path, Progress& progress) {
  Recovery out{.dir = RunDir::recover(path), .checkpoint = {}};
  if (!out.dir) {
    progress.note(path + " holds no run yet: starting from the beginning");
    return out;
  }
  const Checkpoints checkpoints(out.dir->path());
  Checkpoints::Found found = checkpoints.newest();
  const auto last = [&](size_t i) { return found.checkpoint ? found.checkpoint->manifest.step : found.damaged[i]; };
  for (size_t i = 0; found.checkpoint && i < found.faults.size(); ++i) {
    progress.warning(message("warning W-CHECKPOINT  ", found.faults[i], "\n  the steps ", last(i) + 1, " to ",
                             found.damaged[i], " are lost; the checkpoint is kept as step-….damaged"));
  }
  if (!found.checkpoint && !found.faults.empty()) {
    fail(ErrorKind::model, "E-CHECKPOINT",
         message(found.faults.front(), "\n  no checkpoint of ", path, " is complete, so the run cannot go on. ",
                 "--force renames the directory and starts anew"));
  }
  checkpoints.clean(found.damaged);
  if (!found.checkpoint) progress.note(path + " holds no complete checkpoint: starting from the beginning");
  out.checkpoint = std::move(found.checkpoint);
  return out;
}

/// What a checkpoint says, and how the configuration differs from the one that it was made with.
ResumePoint resume_point(const RunDir& dir, const Checkpoint& checkpoint, const Trajectory& now, bool with_changes) {
  ResumePoint from;
  from.state = read_state(checkpoint);
  from.changes = changes_between(from.state.trajectory, now);
  from.log = end_of_log(dir.path("log.jsonl"), from.state.step, from.state.evaluated_at);
  if (!from.changes.empty() && !with_changes) {
    fail(ErrorKind::config, "E-RECOVER-CHANGED",
         message("the run in ", dir.path(), " began with other values (was -> now):\n", text_of(from.changes),
                 "\n  each of them changes the weights that it ends with. Take the old ones, or go on with the new ",
                 "ones by --recover-with-changes. nothing was started."));
  }
  return from;
}

TrainResult start(config::Config config, const std::string& dir, const TrainOptions& options, Progress& progress) {
  Recovery recovery;
  if (options.recover)
    recovery = look_for_run(dir, progress);
  else
    RunDir::check(dir, options.force);
  const Device device = device_of(config, progress);
  Inputs inputs = read_inputs(config, dir, progress);
  const std::string start_weights = hash_of_tensors(inputs.model->parameters());
  Trajectory trajectory = trajectory_of(config, start_weights);
  const Json about = run_json(config, *inputs.model, start_weights, trajectory);
  inputs.model->to(device);
  Trainer trainer({.config = config,
                   .tokenizer = inputs.tokenizer,
                   .model = *inputs.model,
                   .progress = progress,
                   .trajectory = trajectory,
                   .signals = options.signals},
                  std::move(inputs.task));
  if (recovery.checkpoint) {
    ResumePoint from = resume_point(*recovery.dir, *recovery.checkpoint, trajectory, options.with_changes);
    if (from.log.bytes == 0) {
      progress.warning(message("warning W-LOG  ", recovery.dir->path("log.jsonl"), " holds nothing of the ",
                               from.state.step, " steps before: it is lost or damaged, and begins anew"));
    }
    trainer.resume(*recovery.dir, *recovery.checkpoint, std::move(from));
  }
  const RunDir run_dir = recovery.dir ? *recovery.dir : RunDir::create(dir, options.force);
  if (!run_dir.moved_to().empty()) progress.note("what was in " + dir + " is now in " + run_dir.moved_to());
  run_dir.write("config.json", config::to_json(config));
  run_dir.write("run.json", about.pretty());
  return trainer.run(run_dir);
}

/// A run that was killed while something was written after its last file is finished, and leaves half of that.
void remove_leftovers(const std::string& dir) {
  try {
    (void)RunDir::recover(dir);
  } catch (const Error&) {  // somebody else is at work there, or nothing can be written: then it stays
  }
}

}  // namespace

TrainResult train(config::Config config, const std::string& dir, const TrainOptions& options, Progress& progress) {
  if (options.recover && RunDir::is_finished(dir)) {
    remove_leftovers(dir);
    progress.note(
        dir +
        ": the run is finished, nothing is left to do. Its scores are in metrics.json; no value given now is used");
    return {};
  }
  if (options.signals != nullptr) progress.on_activity([&] { options.signals->poll(); });
  try {
    return start(std::move(config), dir, options, progress);
  } catch (const Interrupted& stop) {
    progress.warning(
        message(name_of_signal(stop.signal()), ": stopped before the first step, so there is nothing new to save"));
    TrainResult result;
    result.interrupted_by = stop.signal();
    return result;
  }
}

}  // namespace mixtape::trainer
