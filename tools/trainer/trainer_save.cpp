// How a run saves itself, lives with a full disk, and goes on.
#include <algorithm>
#include <array>
#include <chrono>
#include <thread>

#include "core/factory.h"
#include "data/safetensors.h"
#include "models/pretrained.h"
#include "tools/trainer/hash.h"
#include "tools/trainer/report.h"
#include "tools/trainer/trainer.h"

namespace mixtape::trainer {
namespace {

/// Between the tries of the last save.
constexpr std::array kWaits = {std::chrono::seconds(1), std::chrono::seconds(2), std::chrono::seconds(4),
                               std::chrono::seconds(8)};

bool is_disk_full(const Error& error) { return error.code() == "E-IO-NOSPACE"; }

NamedTensors copies_of(const NamedTensors& tensors) {
  NamedTensors copies;
  for (const auto& [name, tensor] : tensors) copies.push_back({name, copy_of(tensor)});
  return copies;
}

/// The same names in the same order.
void put(const NamedTensors& source, const NamedTensors& target) {
  for (size_t i = 0; i < target.size(); ++i) assign(target[i].tensor, source[i].tensor);
}

bool any_begins_with(const std::vector<Change>& changes, std::string_view prefix) {
  return std::any_of(changes.begin(), changes.end(), [&](const Change& c) { return c.key.starts_with(prefix); });
}

/// Weights that go on in another form round anew: what older roundings took from them is no part of that form.
void forget_compensation(NamedTensors& moments) {
  std::erase_if(moments, [](const NamedTensor& entry) { return entry.name.ends_with(".compensation"); });
}

[[noreturn]] void refuse_scaler(int64_t step, const std::string& name, const char* what) {
  fail(ErrorKind::model, "E-CHECKPOINT",
       message("the checkpoint of step ", step, " ", what, " the state of a loss scaler '", name,
               "': the run goes on only with the trainer that wrote it, which makes the same scalers"));
}

/// While it lives, parameters have the dtypes that a checkpoint keeps them in: hashes are of bytes.
class StoredAs {
 public:
  StoredAs(const Checkpoint& checkpoint, NamedTensors parameters) : parameters_(std::move(parameters)) {
    const data::SafeTensorsFile file = data::SafeTensorsFile::open(checkpoint.path + "/model.safetensors");
    for (const auto& [name, tensor] : parameters_) {
      own_.push_back(tensor.dtype());
      const data::TensorEntry* entry = file.find(name);
      if (entry != nullptr && is_float(entry->dtype)) tensor.store_as(entry->dtype);
    }
  }
  ~StoredAs() {
    for (size_t i = 0; i < own_.size(); ++i) parameters_[i].tensor.store_as(own_[i]);
  }
  StoredAs(const StoredAs&) = delete;
  StoredAs& operator=(const StoredAs&) = delete;

 private:
  NamedTensors parameters_;
  std::vector<DType> own_;
};

}  // namespace

RunState Trainer::state() const {
  RunState state;
  state.step = result_.steps;
  state.updates = schedule_.updates();
  state.tokens = result_.tokens;
  state.skipped = result_.skipped;
  state.evaluated_at = evaluated_at_;
  state.evaluations_since_best = evaluations_since_best_;
  const std::vector<amp::ScalerState> scalers = scalers_before_.value_or(scaler_states());  // a step begins anew
  state.scaler = scalers.front();
  for (size_t i = 0; i < more_scalers_.size(); ++i) state.more_scalers[more_scalers_[i].name] = scalers[i + 1];
  state.culprit = culprit_;
  if (result_.val) state.best = RunState::Best{result_.best_step, best_weights_, *result_.val};
  state.trajectory = parts_.trajectory;
  return state;
}

bool Trainer::save_is_due() const {
  if (best_is_new_ || !kept_best_.empty()) return true;
  if (is_saved()) return false;
  return options_.save_steps > 0 ? result_.steps % options_.save_steps == 0 : evaluated_at_ == result_.steps;
}

void Trainer::save() {
  if (attempt([&] { save_or_throw(); })) return;
  // The next step changes the weights: if they are the best, they must be somewhere else by then.
  if (best_is_new_ && !attempt([&] { export_best(); })) keep_best();
}

/// The checkpoint before best/: killed in between, the run finds the best weights in the checkpoint of their step.
void Trainer::save_or_throw() {
  export_kept_best();
  if (!is_saved()) {
    report_->sync();
    const Checkpoints checkpoints(dir_->path());
    checkpoints.save(state(), model().parameters(), optimizer().state(), options_.save_total_limit);
    saved_at_ = result_.steps;
    saved_evaluated_at_ = evaluated_at_;
    report_->checkpoint(result_.steps, "state", Checkpoints::name_of(result_.steps), result_.seconds);
    on_checkpoint(checkpoints.path_of(result_.steps));
  }
  if (best_is_new_) export_best();
}

bool Trainer::attempt(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& error) {
    if (!is_disk_full(error)) throw;
    report_->save_failed(result_.steps, error.what());
    if (!disk_is_full_) {
      parts_.progress.warning(message("warning E-IO-NOSPACE  ", error.what(),
                                      "\n  nothing older is lost, and the run goes on: make room, the next save tries "
                                      "again"));
    }
    disk_is_full_ = true;
    return false;
  }
  if (disk_is_full_) parts_.progress.note(message("step ", result_.steps, ": saved, there is room again"));
  disk_is_full_ = false;
  return true;
}

void Trainer::insist(const std::function<void()>& work) {
  for (const auto wait : kWaits) {
    if (attempt(work)) return;
    if (parts_.signals != nullptr) parts_.signals->poll();
    std::this_thread::sleep_for(wait);
  }
  work();
}

void Trainer::export_best() {
  dir_->replace("best", [&](const std::string& directory) {
    models::save_pretrained(directory, model(), task_.class_names, parts_.tokenizer);
  });
  best_is_new_ = false;
  report_->checkpoint(result_.best_step, "best", "best", result_.seconds);
  on_checkpoint(dir_->best());
}

void Trainer::keep_best() {
  kept_best_ = copies_of(model().parameters());
  best_is_new_ = false;
}

void Trainer::export_kept_best() {
  if (kept_best_.empty()) return;
  const NamedTensors now = copies_of(model().parameters());
  put(kept_best_, model().parameters());
  try {
    export_best();
  } catch (...) {
    put(now, model().parameters());
    throw;
  }
  put(now, model().parameters());
  kept_best_.clear();
}

void Trainer::resume(const RunDir& dir, const Checkpoint& checkpoint, ResumePoint from) {
  const RunState& state = from.state;
  if (state.best) {
    const StoredAs as_it_was(checkpoint, model().parameters());
    restore_best(dir, *state.best);
  }
  if (state.best && !from.changes.empty()) best_weights_ = hash_of_tensors(model().parameters());
  load_weights(checkpoint, model().parameters());
  const bool same_rule = !any_begins_with(from.changes, "optimizer.type");
  if (same_rule) {
    NamedTensors moments = read_tensors(checkpoint, "optimizer.safetensors");
    if (any_begins_with(from.changes, "amp.")) forget_compensation(moments);
    optimizer().load_state(moments);
  }
  const amp::ScaleState first_scale = scaler_.state().scale;
  take_up(state);
  if (any_begins_with(from.changes, "amp.")) {
    amp::ScalerState scaler = state.scaler;
    scaler.scale = first_scale;
    scaler_.load_state(scaler);
  }
  result_.seconds = from.log.seconds;
  if (from.changes.empty()) {
    saved_at_ = state.step;
    saved_evaluated_at_ = state.evaluated_at;
  }
  from_ = std::move(from);
}

/// Counters alone.
void Trainer::take_up(const RunState& state) {
  scaler_.load_state(state.scaler);
  for (NamedScaler& own : more_scalers_) {
    const auto kept = state.more_scalers.find(own.name);
    if (kept == state.more_scalers.end()) refuse_scaler(state.step, own.name, "does not keep");
    own.scaler.load_state(kept->second);
  }
  for (const auto& [name, kept] : state.more_scalers) {
    const auto same = [&](const NamedScaler& own) { return own.name == name; };
    if (std::none_of(more_scalers_.begin(), more_scalers_.end(), same)) refuse_scaler(state.step, name, "also keeps");
  }
  schedule_.restore(state.updates);
  evaluated_at_ = state.evaluated_at;
  evaluations_since_best_ = state.evaluations_since_best;
  culprit_ = state.culprit;
  result_.steps = state.step;
  result_.updates = state.updates;
  result_.skipped = state.skipped;
  result_.tokens = state.tokens;
}

/// best/ may be older than the checkpoint, when the run was killed between the two, or newer, when the checkpoint is
/// not the last thing that the run did.
void Trainer::restore_best(const RunDir& dir, const RunState::Best& best) {
  result_.val = best.metrics;
  result_.best_step = best.step;
  best_weights_ = best.weights;
  const auto matches = [&] { return hash_of_tensors(model().parameters()) == best.weights; };
  try {
    models::load_pretrained(model(), dir.best());
    if (matches()) return;
  } catch (const Error& error) {
    parts_.progress.detail(error.what());
  }
  const std::string path = Checkpoints(dir.path()).path_of(best.step);
  data::Parsed<Manifest> manifest = verify_directory(path);
  if (!manifest.value) {
    fail(ErrorKind::model, "E-CHECKPOINT",
         message("the best model of this run is that of step ", best.step, ", but best/ holds another one, and ",
                 manifest.error));
  }
  load_weights({.path = path, .manifest = std::move(*manifest.value)}, model().parameters());
  if (!matches()) fail(ErrorKind::model, "E-CHECKPOINT", path + ": does not hold the best weights of this run");
  dir.replace("best", [&](const std::string& directory) {
    models::save_pretrained(directory, model(), task_.class_names, parts_.tokenizer);
  });
  parts_.progress.note(message("best/ is made anew from the checkpoint of step ", best.step));
}

TrainResult Trainer::interrupted(int signal) {
  optimizer().clear_gradients();
  settle_steps();
  result_.interrupted_by = signal;
  const std::string who = name_of_signal(signal);
  if (result_.steps == 0) {
    parts_.progress.warning(who + ": stopped before the first step was done, so there is nothing to save");
    return result_;
  }
  save_or_throw();
  report_->interrupted(result_.steps, who);
  parts_.progress.warning(message(who, ": stopped after step ", result_.steps, ", saved in ",
                                  dir_->path(Checkpoints::name_of(result_.steps)), "; go on with --recover"));
  return result_;
}

}  // namespace mixtape::trainer
