// mixtape inspect memory CONFIG: what a training step of this configuration keeps in memory, and its peak.
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <unordered_set>

#include "amp/autocast.h"
#include "autograd/node.h"
#include "core/allocator.h"
#include "core/kernels/parallel.h"
#include "core/parameter.h"
#include "data/batch.h"
#include "optim/clip.h"
#include "tools/commands.h"
#include "tools/config/config.h"
#include "tools/trainer/evaluate.h"
#include "tools/trainer/json.h"
#include "tools/trainer/setup.h"
#include "tools/trainer/task.h"

namespace mixtape::tools {
namespace {

struct MemoryOptions {
  std::string file;
  std::vector<std::string> sets;
  bool json = false;
};

/// All in bytes.
struct MemoryPlan {
  int64_t weights = 0, copies = 0, gradients = 0, optimizer = 0;
  std::map<std::string, int64_t> saved;           ///< for backward, by op
  int64_t forward = 0, backward = 0, update = 0;  ///< the most that was in use in each part of a step
  int64_t evaluation = 0;                         ///< and while a batch of the evaluation is looked at between steps

  int64_t all_saved() const {
    int64_t sum = 0;
    for (const auto& [op, bytes] : saved) sum += bytes;
    return sum;
  }
  int64_t peak() const { return std::max({forward, backward, update, evaluation}); }
};

int64_t bytes_of(const Tensor& tensor) { return tensor ? tensor.numel() * size_of(tensor.dtype()) : 0; }

/// What the graph behind `loss` keeps, by the op that keeps it first; weights and their copies belong to the model.
std::map<std::string, int64_t> saved_by_op(const Tensor& loss, const NamedTensors& parameters) {
  std::unordered_set<const void*> counted;
  for (const NamedTensor& p : parameters) {
    counted.insert(p.tensor.storage().data());
    if (p.tensor.leaf().shadow.bytes) counted.insert(p.tensor.leaf().shadow.bytes.data());
  }
  std::map<std::string, int64_t> out;
  std::unordered_set<const autograd::Node*> seen;
  std::vector<const autograd::Node*> open{loss.node().get()};
  while (!open.empty()) {
    const autograd::Node* node = open.back();
    open.pop_back();
    if (!node || !seen.insert(node).second) continue;
    for (const auto* kept : {&node->inputs, &node->outputs}) {
      for (const autograd::Saved& saved : *kept) {
        if (!saved.storage || !counted.insert(saved.storage.data()).second) continue;
        out[std::string(node->op->info->name)] += static_cast<int64_t>(saved.storage.bytes());
      }
    }
    for (const autograd::Edge& edge : node->edges) open.push_back(edge.node.get());
  }
  return out;
}

/// Runs two steps on one batch, the first of which makes the optimizer's states, and looks at the second.
class MemoryProbe {
 public:
  MemoryProbe(const config::Config& config, const models::BertClassifier& model, const data::Batch& batch)
      : config_(config),
        model_(model),
        batch_(batch),
        precision_(trainer::make_precision(config)),
        scaler_(amp::unscaled()),  // an overflow would skip the update that is to be looked at
        optimizer_(trainer::make_optimizer(config, model.parameters())) {}

  MemoryPlan run(const std::vector<data::Batch>& evaluated) {
    step();
    step();
    for (const data::Batch& batch : evaluated) evaluate(batch);
    for (const NamedTensor& state : optimizer_->state()) plan_.optimizer += bytes_of(state.tensor);
    return plan_;
  }

 private:
  void step() {
    // A second micro-batch adds to gradients that are there already: more of them change nothing.
    const int64_t micro_batches = std::min<int64_t>(config_.trainer.gradient_accumulation_steps, 2);
    plan_ = {};
    for (int64_t micro = 0; micro < micro_batches; ++micro) {
      const RngGuard rng({.stream = rng_stream::dropout, .step = 1, .micro_step = static_cast<uint32_t>(micro)});
      cpu_allocator().reset_peak();
      const Tensor loss = [&] {
        const amp::Autocast autocast(precision_.rule);
        return model_.loss(batch_, static_cast<double>(micro_batches * batch_.rows), true);
      }();
      plan_.forward = std::max(plan_.forward, take_peak());
      plan_.saved = saved_by_op(loss, model_.parameters());
      autograd::backward(scaler_.scale(loss));
      plan_.backward = std::max(plan_.backward, take_peak());
    }
    for (const NamedTensor& p : model_.parameters()) {
      plan_.weights += bytes_of(p.tensor);
      plan_.copies += static_cast<int64_t>(p.tensor.leaf().shadow.bytes ? p.tensor.leaf().shadow.bytes.bytes() : 0);
      plan_.gradients += bytes_of(p.tensor.leaf().gradient.raw);
    }
    scaler_.unscale(*optimizer_);
    (void)optim::clip_grad_norm(*optimizer_, config_.trainer.max_grad_norm);
    (void)scaler_.step(*optimizer_).get();
    scaler_.update();
    plan_.update = take_peak();
  }

  void evaluate(const data::Batch& batch) {
    const NoGradGuard no_grad;
    const amp::Autocast autocast(precision_.rule);
    cpu_allocator().reset_peak();
    (void)model_.logits(batch, false);
    plan_.evaluation = std::max(plan_.evaluation, take_peak());
  }

  static int64_t take_peak() {
    const int64_t peak = cpu_allocator().stats().peak_bytes;
    cpu_allocator().reset_peak();
    return peak;
  }

  const config::Config& config_;
  const models::BertClassifier& model_;
  const data::Batch& batch_;
  trainer::Precision precision_;
  amp::GradScaler scaler_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  MemoryPlan plan_;
};

std::string as_text(const MemoryPlan& plan, const data::Batch& batch) {
  const auto row = [](std::string_view indent, std::string_view name, int64_t bytes, std::string_view about = "") {
    return fmt::format("{}{:<{}}{:>10.2f} MiB{}{}\n", indent, name, 26 - indent.size(),
                       static_cast<double>(bytes) / 0x1p20, about.empty() ? "" : "  ", about);
  };
  std::string out = message("a training step of the longest batch: ", batch.rows, " texts of at most ", batch.longest,
                            " tokens, ", batch.tokens, " in all\n");
  out += row("  ", "weights", plan.weights) + row("  ", "16-bit copies", plan.copies);
  out += row("  ", "gradients", plan.gradients) + row("  ", "optimizer", plan.optimizer);
  out += row("  ", "saved for backward", plan.all_saved());
  std::vector<std::pair<std::string, int64_t>> ops(plan.saved.begin(), plan.saved.end());
  std::sort(ops.begin(), ops.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  for (const auto& [op, bytes] : ops) out += row("    ", op, bytes);
  out += row("  ", "peak of forward", plan.forward) + row("  ", "peak of backward", plan.backward);
  out += row("  ", "peak of the update", plan.update) + row("  ", "peak of the evaluation", plan.evaluation);
  return out + row("", "peak", plan.peak(), "beside the program itself, its data and what the libraries keep");
}

std::string as_json(const MemoryPlan& plan, const data::Batch& batch) {
  trainer::Json saved = trainer::Json::object();
  for (const auto& [op, bytes] : plan.saved) saved.set(op, bytes);
  return trainer::Json::object()
             .set("rows", batch.rows)
             .set("longest", batch.longest)
             .set("tokens", batch.tokens)
             .set("weights", plan.weights)
             .set("copies", plan.copies)
             .set("gradients", plan.gradients)
             .set("optimizer", plan.optimizer)
             .set("saved", std::move(saved))
             .set("peak_forward", plan.forward)
             .set("peak_backward", plan.backward)
             .set("peak_update", plan.update)
             .set("peak_evaluation", plan.evaluation)
             .set("peak_bytes", plan.peak())
             .line() +
         "\n";
}

/// Of the batches of texts sorted by length, the one with the most places for tokens.
data::Batch largest_batch(const data::EncodedTexts& texts, int64_t size, const data::CollateOptions& options) {
  const data::BatchPlan batches = data::plan_sorted(texts.lengths(), size);
  const auto places = [&](const std::vector<int64_t>& rows) { return std::ssize(rows) * texts.length(rows.back()); };
  return data::collate(texts,
                       *std::max_element(batches.begin(), batches.end(),
                                         [&](const auto& a, const auto& b) { return places(a) < places(b); }),
                       options);
}

void memory(const MemoryOptions& options) {
  config::Config config = load_config(options.file, options.sets);
  trainer::Progress progress(options.json ? trainer::Verbosity::quiet : trainer::Verbosity::normal);
  kernels::set_thread_count(static_cast<int>(config.threads));
  trainer::take_from_pretrained(config);
  const data::Tokenizer tokenizer = trainer::make_tokenizer(config.tokenizer);
  const trainer::Task task = trainer::read_task(config, tokenizer, progress);
  const auto model = trainer::make_model(config, tokenizer.vocab().size(), task.class_names, progress);
  data::CollateOptions collate = trainer::collate_options(config, tokenizer, model->label_dtype());
  const data::Batch batch = largest_batch(task.train, config.trainer.per_device_train_batch_size, collate);
  collate.padding = data::Padding::longest;  // as trainer::evaluate pads
  std::vector<data::Batch> evaluated;
  for (const data::EncodedTexts* split : {&task.val, &task.test}) {
    if (split->rows() > 0) evaluated.push_back(largest_batch(*split, trainer::EvaluateOptions().batch_size, collate));
  }
  const MemoryPlan plan = MemoryProbe(config, *model, batch).run(evaluated);
  progress.clear();
  print(options.json ? as_json(plan, batch) : as_text(plan, batch));
}

}  // namespace

void add_inspect_memory(Verb& inspect) {
  Verb verb = inspect.add("memory", "what a training step keeps in memory, measured on the longest batch");
  const auto options = std::make_shared<MemoryOptions>();
  verb.option("CONFIG", options->file, {.doc = "configuration file (JSON with comments)", .required = true});
  add_set_option(verb, options->sets);
  verb.flag("--json", options->json, "as JSON, in bytes");
  verb.action([options] { memory(*options); });
}

}  // namespace mixtape::tools
