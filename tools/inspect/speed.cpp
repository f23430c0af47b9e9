#include "tools/inspect/speed.h"

#include <algorithm>
#include <chrono>
#include <memory>

#include "amp/ledger.h"
#include "core/context.h"
#include "core/error.h"
#include "core/kernels/gemm.h"
#include "core/kernels/parallel.h"
#include "data/loader.h"
#include "tools/inspect/amps.h"
#include "tools/trainer/profiled_step.h"
#include "tools/trainer/setup.h"
#include "tools/trainer/task.h"

namespace mixtape::inspect {
namespace {

using trainer::Profile;

constexpr int64_t kWarmup = 2, kMostSteps = 5;

WorkClass class_of(std::string_view name) {
  if (name == "matrix products" || name == "attention") return WorkClass::products;
  if (name == Profile::casts) return WorkClass::casts;
  if (name == Profile::optimizer || name == Profile::clipping) return WorkClass::optimizer;
  if (name == Profile::batch || name == Profile::tape) return WorkClass::waiting;
  return WorkClass::other_math;
}

/// Takes steps of a configuration over the first batches of its first epoch.
class Stepper {
 public:
  Stepper(const config::Config& config, trainer::Progress& progress)
      : config_(config),
        tokenizer_(trainer::make_tokenizer(config.tokenizer)),
        task_(trainer::read_task(config, tokenizer_, progress)),
        model_(trainer::make_model(config, tokenizer_.vocab().size(), task_.class_names, progress)),
        step_(config, *model_),
        loader_(std::move(task_.train),
                {.plan = {.batch_size = config.trainer.per_device_train_batch_size,
                          .shuffle = config.data.shuffle,
                          .length_bucketing = config.data.length_bucketing,
                          .seed = static_cast<uint64_t>(config.trainer.seed)},
                 .collate = trainer::collate_options(config, tokenizer_, model_->label_dtype())}),
        plan_(loader_.plan(0)) {}

  /// `profile` may be null.
  void step(Profile* profile) {
    const auto next = [&] {
      const int64_t number = std::min(step_.steps() - 1, kWarmup);  // then always the same batch: steps compare
      data::Batch batch = loader_.batch(plan_, static_cast<size_t>(number % std::ssize(plan_)));
      rows = batch.rows;
      tokens = batch.tokens;
      return batch;
    };
    step_.take(static_cast<uint64_t>(config_.trainer.seed), next, profile);
  }
  int64_t rows = 0, tokens = 0;

 private:
  const config::Config& config_;
  data::Tokenizer tokenizer_;
  trainer::Task task_;
  std::unique_ptr<models::BertClassifier> model_;
  trainer::ProfiledStep step_;
  data::Loader loader_;
  data::BatchPlan plan_;
};

struct Traffic {
  int64_t bytes = 0, casts = 0;
};
/// Of the step after a warm-up: by then the optimizer writes the 16-bit copies of weights along, which nobody casts.
Traffic traffic_of(Stepper& stepper) {
  for (int64_t i = 0; i < kWarmup; ++i) stepper.step(nullptr);
  amp::Ledger ledger;
  {
    const ObserverGuard guard(ledger.observer());
    stepper.step(nullptr);
  }
  Traffic out;
  for (const auto* rows : {&ledger.forward(), &ledger.backward()}) {
    for (const amp::LedgerRow& row : *rows) {
      out.bytes += row.bytes;
      if (row.op == "cast") out.casts += row.bytes;
    }
  }
  return out;
}

/// The fastest of so many steps: what else runs on a machine only ever adds time. 0 steps: as many as a second holds.
void measure(SpeedRun& run, Stepper& stepper, int64_t steps) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point start = Clock::now();
  const auto wanted = [&] {
    return steps > 0 ? run.steps < steps
                     : run.steps < kMostSteps && (run.steps == 0 || Clock::now() - start < std::chrono::seconds(1));
  };
  std::unique_ptr<Profile> fastest;
  for (; wanted(); ++run.steps) {
    auto profile = std::make_unique<Profile>();
    const ObserverGuard guard(profile->observer());
    stepper.step(profile.get());
    if (!fastest || profile->seconds() < fastest->seconds()) fastest = std::move(profile);
  }
  run.rows = stepper.rows;
  run.tokens = stepper.tokens;
  run.seconds = fastest->seconds();
  for (const trainer::ClassTimes& times : fastest->classes()) {
    run.class_seconds[static_cast<int>(class_of(times.name))] += times.sum();
  }
  run.flops_wide = fastest->flops(DType::f32);
  run.flops_low = fastest->flops(DType::bf16) + fastest->flops(DType::f16);
}

/// What each override adds to the bytes of casts: the same step without it.
void find_cast_cause(SpeedRun& run, const config::Config& config, trainer::Progress& progress) {
  for (const auto& changed : config.amp.overrides) {
    config::Config without = config;
    std::erase_if(without.amp.overrides, [&](const auto& entry) { return entry.first == changed.first; });
    Stepper stepper(without, progress);
    const double added = static_cast<double>(run.cast_bytes - traffic_of(stepper).casts);
    if (added <= run.cause_bytes) continue;
    run.cause_bytes = added;
    run.cast_cause = message(changed.first, " is overridden to ", changed.second);
  }
}

SpeedRun measure_amp(const config::Config& config, const std::string& amp, int64_t steps, trainer::Progress& progress) {
  SpeedRun run;
  run.amp = amp;
  kernels::set_thread_count(static_cast<int>(config.threads));
  {
    Stepper stepper(config, progress);
    const Traffic traffic = traffic_of(stepper);
    run.bytes = traffic.bytes;
    run.cast_bytes = traffic.casts;
    measure(run, stepper, steps);
  }
  if (amp != "off") find_cast_cause(run, config, progress);
  return run;
}

}  // namespace

std::string_view name_of(WorkClass work) {
  constexpr std::string_view names[work_classes] = {"products (GEMM)", "other math", "casts", "optimizer", "waiting"};
  return names[static_cast<int>(work)];
}

Speed measure_speed(const std::string& file, const std::vector<std::string>& sets, const std::vector<std::string>& amps,
                    trainer::Progress& progress) {
  std::vector<config::Config> configs;
  for (const std::string& amp : amps) configs.push_back(amp_config(file, sets, amp));  // all faults before any work
  Speed speed;
  for (size_t i = 0; i < amps.size(); ++i) {
    const int64_t steps = speed.runs.empty() ? 0 : speed.runs.front().steps;  // as many tries for each
    speed.runs.push_back(measure_amp(configs[i], amps[i], steps, progress));
  }
  const SpeedMachine machine{.native_bf16 = kernels::gemm_native_bf16()};
  for (const SpeedRun& off : speed.runs) {
    for (const SpeedRun& low : speed.runs) {
      if (off.amp == "off" && low.amp != "off") speed.verdicts.push_back(speed_verdict(off, low, machine));
    }
  }
  return speed;
}

}  // namespace mixtape::inspect
