#include "tools/inspect/replay.h"

#include <optional>

#include "core/context.h"
#include "core/error.h"
#include "core/kernels/parallel.h"
#include "data/file.h"
#include "tools/config/build_info.h"
#include "tools/config/json_locate.h"
#include "tools/trainer/hash.h"
#include "tools/trainer/setup.h"

namespace mixtape::inspect {

/// Calls what looks at the running step.
class ReplayTrainer : public trainer::Trainer {
 public:
  using Trainer::Trainer;
  const Watch* watch = nullptr;

 protected:
  void on_batch(const data::Batch& batch) override {
    if (watch != nullptr && watch->on_batch) watch->on_batch(batch);
  }
  void on_gradients(const trainer::StepReport& report) override {
    if (watch != nullptr && watch->on_gradients) watch->on_gradients(report);
  }
  void on_step(const trainer::StepReport& report) override {
    if (watch != nullptr && watch->on_step) watch->on_step(report);
  }
};

namespace {

class Watching {
 public:
  Watching(ReplayTrainer& trainer, const Watch& watch) : trainer_(trainer) {
    trainer_.watch = &watch;
    context().observer = watch.observer;
  }
  ~Watching() { trainer_.watch = nullptr; }
  Watching(const Watching&) = delete;
  Watching& operator=(const Watching&) = delete;

 private:
  ContextGuard modes_;
  ReplayTrainer& trainer_;
};

/// run.json, read back.
struct RunFacts {
  std::vector<std::pair<std::string, std::string>> data;  // file and hash
  std::string vocabulary, start_weights;
  trainer::Trajectory trajectory;  // empty in runs of older programs
  int64_t threads = 0;
  std::string build;
};

const config::Value* json_member(const config::Value* object, std::string_view key) {
  return object == nullptr ? nullptr : config::find_member(*object, key);
}

std::string json_text(const config::Value* value) { return value == nullptr ? "" : value->text; }

std::string build_text(const std::string& version, const std::string& compiler, const std::string& instructions,
                       const std::string& gemm) {
  return message("mixtape ", version, " by ", compiler, " for ", instructions, ", products by ", gemm);
}

RunFacts read_facts(const std::string& path) {
  const std::string text = data::read_file(path, ErrorKind::model, "E-RUN-DIR", 1'000'000);
  const config::Document document = config::read_json(text);
  const config::Value* hashes = json_member(&document.root, "xxh3_128");
  if (!document.problems.empty() || hashes == nullptr) {
    fail(ErrorKind::model, "E-RUN-DIR", path + ": expected the JSON object with \"xxh3_128\" that train writes there");
  }
  RunFacts facts;
  if (const config::Value* files = json_member(hashes, "data")) {
    for (const config::Member& file : files->members) facts.data.emplace_back(file.key, file.value.text);
  }
  facts.vocabulary = json_text(json_member(hashes, "vocabulary"));
  facts.start_weights = json_text(json_member(hashes, "start_weights"));
  if (const config::Value* keys = json_member(&document.root, "trajectory")) {
    for (const config::Member& key : keys->members) facts.trajectory.emplace_back(key.key, key.value.text);
  }
  const config::Value* threads = json_member(json_member(&document.root, "machine"), "threads");
  if (threads != nullptr) facts.threads = static_cast<int64_t>(threads->number);
  const config::Value* build = json_member(&document.root, "mixtape");
  facts.build = build_text(json_text(json_member(build, "version")), json_text(json_member(build, "compiler")),
                           json_text(json_member(build, "instructions")), json_text(json_member(build, "gemm")));
  return facts;
}

void expect_file(const std::string& dir, const std::string& path, const std::string& hash) {
  std::string now;
  try {
    now = trainer::hash_of_file(path);
  } catch (const Error&) {  // gone, or not to be read
  }
  if (now == hash) return;
  fail(ErrorKind::data, "E-REPLAY-CHANGED",
       message(path, ": the run in ", dir, " read it, and it is ", now.empty() ? "gone" : "another file now",
               " (run.json has its hash, ", hash, "): put back what was there, so that its steps can be replayed"));
}

/// Files that the configuration names count by their content: a policy, say.
void expect_trajectory(const std::string& dir, const trainer::Trajectory& then, const trainer::Trajectory& now) {
  if (then.empty()) return;
  const std::vector<trainer::Change> changes = trainer::changes_between(then, now);
  if (changes.empty()) return;
  fail(ErrorKind::data, "E-REPLAY-CHANGED",
       message("what decides the weights of the run in ", dir, " is not what it was (run.json has it; was -> now):\n",
               trainer::text_of(changes), "\n  put back what was there, so that its steps can be replayed"));
}

std::string machine_note(const RunFacts& facts) {
  const config::BuildInfo build = config::build_info();
  const std::string here = build_text(build.version, build.compiler, build.instructions, build.gemm);
  if (here == facts.build) return "";
  return message("the run was made by ", facts.build, "; this is ", here, ": the replay may round otherwise");
}

}  // namespace

struct Replay::Parts {
  trainer::Progress* progress;
  config::Config config;
  std::optional<data::Tokenizer> tokenizer;
  std::unique_ptr<models::BertClassifier> model;
  std::unique_ptr<ReplayTrainer> trainer;
  std::string dir;  // "": of a configuration
  LoggedRun log;
  trainer::Trajectory trajectory;
  std::string note;
  int64_t at = 0, checkpoint = 0;

  Parts(config::Config from, trainer::Progress& shown) : progress(&shown), config(std::move(from)) {
    // A checkpoint hides its ops from an observer; without it the bits are the same.
    config.trainer.activation_checkpointing = false;
  }
  void make() {
    trainer::take_from_pretrained(config);
    tokenizer.emplace(trainer::make_tokenizer(config.tokenizer));
    trainer::Task task = trainer::read_task(config, *tokenizer, *progress);
    model = trainer::make_model(config, tokenizer->vocab().size(), task.class_names, *progress);
    trainer = std::make_unique<ReplayTrainer>(
        trainer::Trainer::Parts{.config = config, .tokenizer = *tokenizer, .model = *model, .progress = *progress},
        std::move(task));
  }
};

Replay::Replay(std::unique_ptr<Parts> parts) : parts_(std::move(parts)) {}
Replay::Replay(Replay&&) noexcept = default;
Replay::~Replay() = default;

Replay Replay::of_config(const config::Config& config, trainer::Progress& progress) {
  auto parts = std::make_unique<Parts>(config, progress);
  kernels::set_thread_count(static_cast<int>(config.threads));
  parts->make();
  return Replay(std::move(parts));
}

Replay Replay::of_run(const std::string& dir, trainer::Progress& progress) {
  const trainer::RunDir run = trainer::RunDir::open(dir);
  const RunFacts facts = read_facts(run.path("run.json"));
  auto parts = std::make_unique<Parts>(config::load_config(run.path("config.json"), {}), progress);
  parts->dir = run.path();
  parts->log = read_run_log(run.path());
  for (const auto& [file, hash] : facts.data) {
    expect_file(run.path(), message(parts->config.task.data_dir, "/", file), hash);
  }
  expect_file(run.path(), parts->config.tokenizer.vocab, facts.vocabulary);
  kernels::set_thread_count(static_cast<int>(facts.threads > 0 ? facts.threads : parts->config.threads));
  parts->make();
  const std::string start = trainer::hash_of_tensors(parts->model->parameters());
  if (start != facts.start_weights) {
    const std::string& pretrained = parts->config.model.pretrained;
    fail(ErrorKind::model, "E-REPLAY-WEIGHTS",
         message(pretrained.empty() ? "the weights that this build draws" : "the weights in " + pretrained,
                 " are not those that the run in ", run.path(), " began with (run.json has their hash): ",
                 pretrained.empty() ? "use the build that made the run" : "put back what was there"));
  }
  parts->trajectory = trainer::trajectory_of(parts->config, start);
  expect_trajectory(run.path(), facts.trajectory, parts->trajectory);
  parts->note = inspect::machine_note(facts);
  return Replay(std::move(parts));
}

void Replay::load_checkpoint(int64_t step) {
  Parts& parts = *parts_;
  const int64_t changed_at = parts.log.changes.empty() ? -1 : parts.log.changes.back().step;
  const auto refuse = [&](const std::string& why, const std::string& what) {
    fail(ErrorKind::model, "E-REPLAY-RANGE",
         message("step ", step, " of ", parts.dir, ": ", why, what,
                 "\n  only later steps can be replayed: config.json ", "holds the values that the run has now"));
  };
  if (step <= changed_at) {
    const LoggedChange& change = parts.log.changes.back();
    refuse(message("after step ", change.step, " the run went on with other values"),
           message(": ", change.key, " was ", change.before, ", is ", change.now));
  }
  const trainer::Checkpoints::Found found = trainer::Checkpoints(parts.dir).newest(step);
  for (const std::string& fault : found.faults) parts.progress->note("passed over " + fault);
  if (!found.checkpoint) {
    if (changed_at >= 0) refuse("no checkpoint is left from after the run went on with other values", "");
    return;
  }
  const trainer::RunState state = trainer::read_state(*found.checkpoint);
  const auto changes = trainer::changes_between(state.trajectory, parts.trajectory);
  if (!changes.empty()) {
    refuse(message("the checkpoint of step ", state.step, " was made with other values:\n"), trainer::text_of(changes));
  }
  parts.trainer->load(*found.checkpoint, state);
  parts.at = parts.checkpoint = state.step;
}

void Replay::go_to(int64_t step) {
  Parts& parts = *parts_;
  if (step < next_step() || step > parts.trainer->plan().steps) {
    fail(ErrorKind::config, "E-REPLAY-STEP",
         message("step ", step, ": expected one from ", next_step(), " to ", parts.trainer->plan().steps));
  }
  if (!parts.dir.empty() && parts.at == 0) load_checkpoint(step);
  trainer::Activity activity(*parts.progress, "replaying step", step - 1);
  for (; parts.at < step - 1; ++parts.at) {
    parts.trainer->replay(parts.at + 1);
    activity.done(parts.at + 1);
  }
}

void Replay::take(const Watch& watch) {
  const Watching watching(*parts_->trainer, watch);
  parts_->trainer->replay(parts_->at + 1);
  ++parts_->at;
}

trainer::StepReport Replay::look(const Watch& watch, double scale) {
  const Watching watching(*parts_->trainer, watch);
  return parts_->trainer->try_step(scale);
}

int64_t Replay::next_step() const { return parts_->at + 1; }
std::vector<data::Batch> Replay::next_batches() const { return parts_->trainer->next_batches(); }
const amp::ScalerState& Replay::scaler_state() const { return parts_->trainer->scaler_state(); }
const amp::ScalerOptions& Replay::scaling() const { return parts_->trainer->scaling(); }
const config::Config& Replay::config() const { return parts_->config; }
const models::BertClassifier& Replay::model() const { return *parts_->model; }
const trainer::RunPlan& Replay::plan() const { return parts_->trainer->plan(); }
int64_t Replay::from_checkpoint() const { return parts_->checkpoint; }
const LoggedRun& Replay::log() const { return parts_->log; }
const std::string& Replay::machine_note() const { return parts_->note; }

}  // namespace mixtape::inspect
