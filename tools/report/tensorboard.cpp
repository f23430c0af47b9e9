#include "tools/report/tensorboard.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <limits>

#include "core/error.h"
#include "core/factory.h"
#include "tools/report/event_file.h"
#include "tools/trainer/checkpoint.h"

namespace mixtape::report {
namespace {

namespace fs = std::filesystem;

/// From steps to times of day.
class Clock {
 public:
  explicit Clock(const RunRecord& run) {
    double seconds = 0;
    int64_t before = 0;
    for (const StepEvent& event : run.steps) {
      // A logged step stands for those before it that were not.
      if (std::isfinite(event.seconds)) seconds += event.seconds * static_cast<double>(event.step - before);
      before = event.step;
      at_.emplace_back(event.step, seconds);
    }
    std::error_code error;
    const auto changed = fs::last_write_time(run.dir + "/log.jsonl", error);
    const auto since_1970 = std::chrono::file_clock::to_sys(changed).time_since_epoch();
    const double end = error ? seconds : std::chrono::duration<double>(since_1970).count();
    start_ = end - seconds;
  }

  double time_of(int64_t step) const {
    const auto after =
        std::lower_bound(at_.begin(), at_.end(), step, [](const auto& a, int64_t s) { return a.first < s; });
    if (at_.empty()) return start_;
    return start_ + (after == at_.end() ? at_.back() : *after).second;
  }

 private:
  std::vector<std::pair<int64_t, double>> at_;  // step, seconds of training
  double start_ = 0;
};

void write_steps(const RunRecord& run, const Clock& clock, EventFile& file) {
  const auto put = [&](const char* tag, const StepEvent& event, double value) {
    file.scalar(tag, event.step, clock.time_of(event.step), value);
  };
  int64_t skipped = 0;
  size_t next = 0;
  const auto count_skips = [&](int64_t until) {
    for (; next < run.skips.size() && run.skips[next].step <= until; ++next) {
      const SkipEvent& skip = run.skips[next];
      if (skip.retried) continue;
      ++skipped;
      if (skip.step == until) continue;  // told with the step itself
      file.scalar("train/skipped", skip.step, clock.time_of(skip.step), static_cast<double>(skipped));
      file.scalar("train/loss_scale", skip.step, clock.time_of(skip.step), skip.loss_scale);
    }
  };
  for (const StepEvent& event : run.steps) {
    count_skips(event.step);
    put("train/loss", event, event.loss);
    put("train/grad_norm", event, event.grad_norm);
    put("train/learning_rate", event, event.lr);
    put("train/loss_scale", event, event.loss_scale);
    put("train/skipped", event, static_cast<double>(skipped));
    put("train/tokens_per_second", event, event.tokens_per_s);
    if (std::isfinite(event.lost_updates)) put("train/lost_updates", event, event.lost_updates);
  }
  count_skips(std::numeric_limits<int64_t>::max());
}

void write_evals(const RunRecord& run, const Clock& clock, EventFile& file) {
  for (const EvalEvent& event : run.evals) {
    const double time = clock.time_of(event.step);
    file.scalar(event.split + "/loss", event.step, time, event.scores.loss);
    file.scalar(event.split + "/accuracy", event.step, time, event.scores.accuracy);
    file.scalar(event.split + "/macro_f1", event.step, time, event.scores.macro_f1);
  }
}

/// The directories of checkpoints that are whole, in the order of their steps.
std::vector<trainer::Checkpoint> whole_checkpoints(const std::string& dir) {
  std::vector<trainer::Checkpoint> out;
  std::error_code error;
  for (fs::directory_iterator at(dir + "/checkpoints", error), end; !error && at != end; at.increment(error)) {
    const std::string path = at->path().string();
    if (path.ends_with(".damaged") || !at->is_directory(error)) continue;
    data::Parsed<trainer::Manifest> manifest = trainer::verify_directory(path);
    if (manifest.value) out.push_back({path, std::move(*manifest.value)});
  }
  std::sort(out.begin(), out.end(), [](const auto& a, const auto& b) { return a.manifest.step < b.manifest.step; });
  return out;
}

void write_weights(const trainer::Checkpoint& checkpoint, double time, EventFile& file) {
  for (const NamedTensor& weight : trainer::read_tensors(checkpoint, "model.safetensors")) {
    Spread spread;
    for (const double value : to_vector(weight.tensor)) spread.add(value);
    if (!spread.empty()) file.histogram("weights/" + weight.name, checkpoint.manifest.step, time, spread);
  }
}

}  // namespace

std::string write_tensorboard(const RunRecord& run, const std::string& logdir, trainer::Progress& progress) {
  const std::string folder = logdir + "/" + run.name;
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) fail(ErrorKind::io, "E-IO-WRITE", message(folder, ": the directory cannot be made: ", error.message()));
  const std::string path = folder + "/events.out.tfevents.0000000000.mixtape";
  EventFile file(path);
  const Clock clock(run);
  write_steps(run, clock, file);
  write_evals(run, clock, file);
  const std::vector<trainer::Checkpoint> checkpoints = whole_checkpoints(run.dir);
  trainer::Activity activity(progress, "reading checkpoints", std::ssize(checkpoints));
  for (size_t i = 0; i < checkpoints.size(); ++i) {
    write_weights(checkpoints[i], clock.time_of(checkpoints[i].manifest.step), file);
    activity.done(static_cast<int64_t>(i) + 1);
  }
  file.commit();
  return path;
}

}  // namespace mixtape::report
