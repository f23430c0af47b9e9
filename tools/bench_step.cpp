// mixtape bench step|infer: whole training steps, or forwards, timed.
#include <algorithm>
#include <chrono>

#include "amp/autocast.h"
#include "core/allocator.h"
#include "core/context.h"
#include "core/error.h"
#include "core/kernels/gemm.h"
#include "core/kernels/parallel.h"
#include "data/vocab.h"
#include "tools/bench.h"
#include "tools/bench_batches.h"
#include "tools/bench_observer.h"
#include "tools/bench_report.h"
#include "tools/config/fields.h"
#include "tools/trainer/hash.h"
#include "tools/trainer/profiled_step.h"
#include "tools/trainer/rehearsal.h"
#include "tools/trainer/report.h"
#include "tools/trainer/setup.h"

namespace mixtape::tools {
namespace {

using Clock = std::chrono::steady_clock;
constexpr int64_t bert_vocabulary = 30522;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

/// Of a step: 6 · weights in matrix products · tokens, and 12 · hidden · length² for scores and contexts of each text
/// and layer. A forward is a third of that.
double flops_of(const models::ClassifierConfig& config, int64_t tokens, double squares, bool infer) {
  const double width = static_cast<double>(config.bert.hidden_size);
  const double layers = static_cast<double>(config.bert.num_hidden_layers);
  const double per_layer = width * (4 * width + 2 * static_cast<double>(config.bert.intermediate_size));
  const double forward = 2 * per_layer * layers * static_cast<double>(tokens) + 4 * width * layers * squares;
  return infer ? forward : 3 * forward;
}

/// The rows that --composed names. Throws E-USAGE with the names that there are.
std::vector<const OpSchema*> composed_rows(const std::string& list) {
  std::vector<std::string> names;
  for (const OpSchema* row : registry()) {
    if (!row->info->absorbs.empty()) names.emplace_back(row->info->name);
  }
  std::vector<const OpSchema*> rows;
  for (size_t start = 0, end = 0; !list.empty() && start <= list.size(); start = end + 1) {
    end = std::min(list.find(',', start), list.size());
    const std::string name = list.substr(start, end - start);
    for (const std::string& known : names) {
      if (name == known || name == "all") rows.push_back(find_op(known));
    }
    if (name == "all" || std::find(names.begin(), names.end(), name) != names.end()) continue;
    fail(ErrorKind::config, "E-USAGE",
         message("--composed: no fused row is called \"", name, "\": expected ", config::joined(names, ", ", ""),
                 ", or all of them: all"));
  }
  return rows;
}

/// What an update moves: weights and states in and out, gradients in, 16-bit copies out. What rests has only weights.
double optimizer_bytes(const optim::Optimizer& optimizer) {
  int64_t bytes = -optimizer.resting() * int64_t{5 * sizeof(float)};  // two moments in and out, and a gradient
  for (const auto& [name, state] : optimizer.state()) {
    if (!name.ends_with(".step")) bytes += 2 * state.numel() * size_of(state.dtype());
  }
  for (const auto& [name, weight] : optimizer.parameters()) {
    const Shadow& shadow = weight.leaf().shadow;
    bytes += weight.numel() * (2 * size_of(weight.dtype()) + size_of(wide(weight.dtype())));
    if (shadow.bytes) bytes += weight.numel() * size_of(shadow.dtype);
  }
  return static_cast<double>(bytes);
}

std::unique_ptr<models::BertClassifier> moved(std::unique_ptr<models::BertClassifier> model,
                                              const config::Config& config, trainer::Progress& progress) {
  model->to(trainer::device_of(config, progress));
  return model;
}

class Bench {
 public:
  Bench(const config::Config& config, const StepBench& options, int64_t vocab_size)
      : config_(config),
        options_(options),
        composed_(composed_rows(options.composed)),
        model_(moved(trainer::make_model(config, vocab_size, {"0", "1"}, progress_), config, progress_)),
        step_(config, *model_),
        batches_(options, trainer::padding_of(config.data), model_->config().bert.vocab_size, model_->label_dtype()) {}

  std::string run() {
    trainer::rehearse(config_, *model_, progress_);
    const ComposedGuard composed(composed_);
    StepFigures figures = describe();
    time_steps(figures);
    Profile profile;
    figures.observer_checks = watch_steps(profile);
    figures.check_s = seconds_of_check();
    const Floor floor = options_.floor ? floor_of(figures, profile) : Floor();
    return (options_.json ? step_json : step_text)(options_, figures, profile, options_.floor ? &floor : nullptr);
  }

 private:
  StepFigures describe() const {
    constexpr const char* amp_names[] = {"off", "bf16", "fp16"};
    StepFigures figures;
    figures.amp = amp_names[static_cast<int>(config_.amp.dtype)];
    for (const OpSchema* row : composed_) figures.composed.emplace_back(row->info->name);
    figures.parameters = model_->parameter_count();
    figures.dropout = model_->config().bert.hidden_dropout_prob;
    figures.clip = config_.trainer.max_grad_norm;
    return figures;
  }

  void time_steps(StepFigures& figures) {
    trainer::Hash losses;
    Allocator& memory = allocator_of(model_->device());
    const std::string before = trainer::hash_of_tensors(model_->parameters());
    for (int64_t i = 0; i < options_.warmup + options_.steps; ++i) {
      if (i == options_.warmup) memory.reset_peak();  // making a model needs more than a forward of it
      const int64_t taken = memory.stats().system_allocations;
      const Clock::time_point start = Clock::now();
      options_.infer ? infer(i, nullptr) : step(i, nullptr);
      const double seconds = seconds_since(start);
      figures.system_allocations.push_back(memory.stats().system_allocations - taken);
      losses.add(std::as_bytes(std::span(&loss_, 1)));
      if (i < options_.warmup) continue;
      figures.seconds.push_back(seconds);
      figures.total_s += seconds;
      figures.tokens += batches_.tokens(i);
      figures.flops += flops_of(model_->config(), batches_.tokens(i), batches_.squares(i), options_.infer);
    }
    figures.loss = loss_;
    figures.saved_bytes = saved_bytes_;
    figures.peak_bytes = memory.stats().peak_bytes;
    figures.peak_rss_bytes = trainer::peak_rss_bytes();
    figures.losses_hash = losses.digits();
    figures.weights_hash = trainer::hash_of_tensors(model_->parameters());
    figures.weights_changed = figures.weights_hash != before;
  }

  /// Some more, of the measured batches: up to a second, and five. Returns the checks for an observer in one.
  double watch_steps(Profile& profile) {
    CheckCount count(profile.observer());
    const ObserverGuard guard(count.observer());
    const Clock::time_point start = Clock::now();
    const int64_t most = std::min<int64_t>(options_.steps, 5);
    for (int64_t i = 0; i < most && (i == 0 || seconds_since(start) < 1); ++i) {
      options_.infer ? infer(options_.warmup + i, &profile) : step(options_.warmup + i, &profile);
    }
    return static_cast<double>(count.checks()) / static_cast<double>(profile.steps());
  }

  Floor floor_of(const StepFigures& figures, const Profile& profile) const {
    const double f32_rate = gemm_rate(DType::f32);
    const bool native = config_.amp.dtype == config::AmpDtype::bf16 && kernels::gemm_native_bf16();
    const double low_rate = native ? gemm_rate(DType::bf16) : f32_rate;  // without 16-bit products they are f32's
    const double wide_flops = profile.flops(DType::f32);
    const double low_flops = profile.flops(DType::bf16) + profile.flops(DType::f16);
    Floor floor;
    floor.flops = wide_flops + low_flops;
    floor.gemm_rate = floor.flops / (wide_flops / f32_rate + low_flops / low_rate);
    if (!options_.infer) {
      floor.optimizer_bytes = optimizer_bytes(step_.optimizer());
      floor.optimizer_s = profile.seconds_of(Profile::optimizer);
      floor.triad_rate = triad_rate();
    }
    // The watched steps need not be as long as the others where lengths differ.
    floor.step_s = options_.lengths.empty() ? median(figures.seconds) : profile.seconds();
    return floor;
  }

  void infer(int64_t i, Profile* profile) {
    if (profile != nullptr) profile->phase(Profile::batch);
    const data::Batch batch = data::to(batches_.batch(i), model_->device());
    if (profile != nullptr) profile->phase(Profile::tape);
    const NoGradGuard no_grad;
    const amp::Autocast autocast(step_.precision().rule);
    loss_ = model_->loss(batch, static_cast<double>(batch.rows), false).item();
    if (profile != nullptr) profile->end_step();
  }

  void step(int64_t i, Profile* profile) {
    int64_t live = 0;
    const auto next = [&] {
      data::Batch batch = batches_.batch(i);
      live = live_bytes();
      return batch;
    };
    step_.take(1, next, profile, [&](const Tensor& loss) {
      // Copies that the first step makes are rounded up by the allocator: with a second step it does not count.
      const int64_t saved = live_bytes() - live;
      saved_bytes_ = step_.steps() == 2 ? saved : std::max(saved_bytes_, saved);
      loss_ = loss.item();
    });
  }

  /// Without the 16-bit copies of weights, which the first forward makes: they stay, and no graph owns them.
  int64_t live_bytes() const {
    int64_t live = allocator_of(model_->device()).stats().live_bytes;
    for (const auto& [name, tensor] : model_->parameters()) {
      const Storage& copy = tensor.leaf().shadow.bytes;
      if (copy) live -= static_cast<int64_t>(copy.bytes());
    }
    return live;
  }

  const config::Config& config_;
  const StepBench& options_;
  trainer::Progress progress_;
  std::vector<const OpSchema*> composed_;
  std::unique_ptr<models::BertClassifier> model_;
  trainer::ProfiledStep step_;
  BenchBatches batches_;

  int64_t saved_bytes_ = 0;
  double loss_ = 0;
};

}  // namespace

std::string bench_step(const config::Config& config, const StepBench& options) {
  if (!options.lengths.empty() && std::ssize(options.lengths) < options.batch) {
    fail(ErrorKind::config, "E-USAGE",
         message("--lengths holds ", static_cast<int64_t>(options.lengths.size()), " lengths, less than one batch of ",
                 options.batch));
  }
  if (options.seq > config.model.config.max_position_embeddings) {
    fail(ErrorKind::config, "E-USAGE",
         message("--seq ", options.seq, " is more than the model's ", config.model.config.max_position_embeddings,
                 " positions (model.config.max_position_embeddings)"));
  }
  kernels::set_thread_count(static_cast<int>(config.threads));
  const int64_t vocab_size =
      options.has_vocabulary ? data::Vocab::load(config.tokenizer.vocab).size() : bert_vocabulary;
  return Bench(config, options, vocab_size).run();
}

}  // namespace mixtape::tools
