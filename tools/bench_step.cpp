// mixtape bench step: whole training steps, timed.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <random>

#include "amp/autocast.h"
#include "core/allocator.h"
#include "core/error.h"
#include "core/kernels/parallel.h"
#include "data/batch.h"
#include "data/vocab.h"
#include "optim/clip.h"
#include "tools/bench.h"
#include "tools/config/build_info.h"
#include "tools/config/fields.h"
#include "tools/trainer/hash.h"
#include "tools/trainer/report.h"
#include "tools/trainer/setup.h"

namespace mixtape::tools {
namespace {

using Clock = std::chrono::steady_clock;
constexpr int64_t bert_vocabulary = 30522;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  const size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

/// Where the time of one step goes: an observer hears of each call when it is over, so the time since the last event is
/// that op's.
class Shares {
 public:
  Shares() : observer_{.on_call = &Shares::on_call, .on_backward = &Shares::on_backward, .self = this} {}
  Observer& observer() { return observer_; }
  void restart() { last_ = Clock::now(); }
  void take(std::string_view name, bool backward) {
    const Clock::time_point now = Clock::now();
    Times& times = times_[class_of(name)];
    (backward ? times.backward : times.forward) += std::chrono::duration<double>(now - last_).count();
    last_ = now;
  }

  /// "linear   181.2 ms forward   362.0 ms backward   81.3 %", the largest first.
  std::string table() const {
    double all = 0;
    std::vector<std::pair<std::string, Times>> rows(times_.begin(), times_.end());
    for (const auto& [name, times] : rows) all += times.sum();
    std::sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) { return a.second.sum() > b.second.sum(); });
    std::string out = "one more by op class (with an observer, so a little slower):\n";
    for (const auto& [name, times] : rows) {
      out += fmt::format("  {:22} {:9.2f} ms forward {:9.2f} ms backward {:6.1f} %\n", name, times.forward * 1e3,
                         times.backward * 1e3, 100 * times.sum() / all);
    }
    return out;
  }

 private:
  struct Times {
    double forward = 0, backward = 0;
    double sum() const { return forward + backward; }
  };
  static std::string class_of(std::string_view op) {
    for (const std::string_view product : {"linear", "joint_linear", "matmul", "batched_matmul", "feed_forward"}) {
      if (op == product) return "matrix products";
    }
    for (const std::string_view view : {"reshape", "transpose", "permute", "slice", "split", "expand"}) {
      if (op == view) return "views";
    }
    return std::string(op);
  }
  static void on_call(void* self, const CallEvent& event) {
    static_cast<Shares*>(self)->take(event.op.info->name, false);
  }
  static void on_backward(void* self, const BackwardEvent& event) {
    static_cast<Shares*>(self)->take(event.op.info->name, true);
  }

  Observer observer_;
  Clock::time_point last_;
  std::map<std::string, Times> times_;
};

struct BenchBatch {
  data::Batch batch;
  double squares = 0;  // of the texts' lengths: what attention costs
};

/// Random ids of the wanted lengths, cut into batches: as many as the run has steps, or less, and then used again.
std::vector<BenchBatch> random_batches(const StepBench& options, data::Padding padding, int64_t vocab_size,
                                       DType label_dtype) {
  std::mt19937_64 random(1);
  const uint64_t first = vocab_size > 2000 ? 1000 : 0;  // BERT's vocabulary begins with special and unused pieces
  std::vector<int64_t> lengths = options.lengths;
  if (lengths.empty()) lengths.assign(static_cast<size_t>(options.batch), options.seq);
  const int64_t most = std::min(std::ssize(lengths) / options.batch, options.steps + options.warmup);
  auto next_length = lengths.begin();
  std::vector<BenchBatch> batches(static_cast<size_t>(most));
  for (BenchBatch& made : batches) {
    data::EncodedTexts texts;
    std::vector<int32_t> labels;
    std::vector<int64_t> rows;
    for (int64_t row = 0; row < options.batch; ++row) {
      std::vector<int32_t> ids(static_cast<size_t>(std::min(options.seq, *next_length++)));
      for (int32_t& id : ids) id = static_cast<int32_t>(first + random() % (static_cast<uint64_t>(vocab_size) - first));
      made.squares += static_cast<double>(ids.size() * ids.size());
      texts.append(ids);
      labels.push_back(static_cast<int32_t>(random() % 2));
      rows.push_back(row);
    }
    texts.set_labels(std::move(labels));
    made.batch =
        data::collate(texts, rows, {.padding = padding, .max_length = options.seq, .label_dtype = label_dtype});
  }
  return batches;
}

/// Of a step: 6 · weights in matrix products · tokens, and 12 · hidden · length² for scores and contexts of each text
/// and layer. A forward is a third of that.
double flops_of(const models::ClassifierConfig& config, const BenchBatch& made, bool infer) {
  const double width = static_cast<double>(config.bert.hidden_size);
  const double layers = static_cast<double>(config.bert.num_hidden_layers);
  const double per_layer = width * (4 * width + 2 * static_cast<double>(config.bert.intermediate_size));
  const double forward =
      2 * per_layer * layers * static_cast<double>(made.batch.tokens) + 4 * width * layers * made.squares;
  return infer ? forward : 3 * forward;
}

class Bench {
 public:
  Bench(const config::Config& config, const StepBench& options, int64_t vocab_size)
      : config_(config),
        options_(options),
        model_(trainer::make_model(config, vocab_size, {"0", "1"}, progress_)),
        precision_(trainer::make_precision(config)),
        scaler_(precision_.scaler),
        optimizer_(trainer::make_optimizer(config.optimizer, model_->parameters())),
        batches_(random_batches(options, trainer::padding_of(config.data), model_->config().bert.vocab_size,
                                model_->label_dtype())) {}

  std::string run() {
    ContextGuard modes;
    context().fused = !options_.composed;
    const std::string before = trainer::hash_of_tensors(model_->parameters());
    for (int64_t i = 0; i < options_.warmup + options_.steps; ++i) {
      const BenchBatch& made = batches_[static_cast<size_t>(i) % batches_.size()];
      const Clock::time_point start = Clock::now();
      options_.infer ? infer(made.batch) : step(made.batch, nullptr);
      if (i < options_.warmup) continue;
      times_.push_back(seconds_since(start));
      total_ += times_.back();
      tokens_ += made.batch.tokens;
      flops_ += flops_of(model_->config(), made, options_.infer);
    }
    changed_ = trainer::hash_of_tensors(model_->parameters()) != before;
    return options_.json ? json() : text();
  }

 private:
  void infer(const data::Batch& batch) {
    const NoGradGuard no_grad;
    const amp::Autocast autocast(precision_.rule);
    loss_ = model_->loss(batch, static_cast<double>(batch.rows), false).item();
  }

  void step(const data::Batch& batch, Shares* shares) {
    const RngGuard rng({.seed = 1, .stream = rng_stream::dropout, .step = static_cast<uint32_t>(++step_)});
    const int64_t live = cpu_allocator().stats().live_bytes;
    const Tensor loss = [&] {
      const amp::Autocast autocast(precision_.rule);
      return model_->loss(batch, static_cast<double>(batch.rows), true);
    }();
    saved_bytes_ = std::max(saved_bytes_, cpu_allocator().stats().live_bytes - live);
    loss_ = loss.item();
    autograd::backward(scaler_.scale(loss));
    if (shares != nullptr) shares->take("the tape", true);
    scaler_.unscale(*optimizer_);
    (void)optim::clip_grad_norm(*optimizer_, config_.trainer.max_grad_norm);
    if (shares != nullptr) shares->take("norm and clipping", true);
    (void)scaler_.step(*optimizer_).get();
    scaler_.update();
    if (shares != nullptr) shares->take("optimizer", true);
  }

  std::string amp_name() const {
    constexpr const char* names[] = {"off", "bf16", "fp16"};
    return names[static_cast<int>(config_.amp.dtype)];
  }

  std::string json() const {
    return trainer::Json::object()
               .set("mode", options_.infer ? "infer" : "train")
               .set("amp", amp_name())
               .set("batch", options_.batch)
               .set("seq", options_.seq)
               .set("median_s", median(times_))
               .set("min_s", *std::min_element(times_.begin(), times_.end()))
               .set("tokens_per_s", static_cast<double>(tokens_) / total_)
               .set("gflops_per_s", flops_ / total_ / 1e9)
               .set("peak_bytes", trainer::peak_bytes())
               .set("saved_bytes", saved_bytes_)
               .set("peak_rss_bytes", trainer::peak_rss_bytes())
               .set("threads", kernels::thread_count())
               .set("isa", config::build_info().instructions)
               .set("parameters", model_->parameter_count())
               .set("dropout", model_->config().bert.hidden_dropout_prob)
               .set("clip", config_.trainer.max_grad_norm)
               .set("loss", loss_)
               .set("weights_changed", changed_)
               .line() +
           "\n";
  }

  std::string text() {
    const auto mib = [](int64_t bytes) { return static_cast<double>(bytes) / 0x1p20; };
    std::string out = fmt::format(
        "{}, amp {}, batch {} x {} tokens, {} threads, {:.1f} M parameters\n"
        "  median {:.2f} ms, fastest {:.2f} ms, {:.0f} tokens/s, {:.1f} GFLOP/s ({} x weights x tokens + attention)\n"
        "  at most {:.1f} MiB allocated, {:.1f} MiB saved for backward, {:.1f} MiB resident\n",
        options_.infer ? "inference" : "training step", amp_name(), options_.batch, options_.seq,
        kernels::thread_count(), static_cast<double>(model_->parameter_count()) / 1e6, median(times_) * 1e3,
        *std::min_element(times_.begin(), times_.end()) * 1e3, static_cast<double>(tokens_) / total_,
        flops_ / total_ / 1e9, options_.infer ? 2 : 6, mib(trainer::peak_bytes()), mib(saved_bytes_),
        mib(trainer::peak_rss_bytes()));
    Shares shares;
    const ObserverGuard guard(shares.observer());
    shares.restart();
    options_.infer ? infer(batches_.front().batch) : step(batches_.front().batch, &shares);
    return out + shares.table();
  }

  const config::Config& config_;
  const StepBench& options_;
  trainer::Progress progress_;
  std::unique_ptr<models::BertClassifier> model_;
  trainer::Precision precision_;
  amp::GradScaler scaler_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  std::vector<BenchBatch> batches_;

  int64_t step_ = 0, tokens_ = 0, saved_bytes_ = 0;
  std::vector<double> times_;
  double total_ = 0, flops_ = 0, loss_ = 0;
  bool changed_ = false;
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
