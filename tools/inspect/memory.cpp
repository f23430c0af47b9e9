#include "tools/inspect/memory.h"

#include <fmt/format.h>

#include <algorithm>
#include <memory>
#include <unordered_set>

#include "amp/autocast.h"
#include "autograd/node.h"
#include "core/allocator.h"
#include "core/kernels/parallel.h"
#include "core/parameter.h"
#include "data/batch.h"
#include "optim/clip.h"
#include "tools/inspect/memory_batches.h"
#include "tools/trainer/evaluate.h"
#include "tools/trainer/rehearsal.h"
#include "tools/trainer/setup.h"
#include "tools/trainer/task.h"

namespace mixtape::inspect {
namespace {

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

/// Takes the steps of a run that need the most: its first, which makes the optimizer's states, and of the later ones.
class MemoryProbe {
 public:
  MemoryProbe(const config::Config& config, const models::BertClassifier& model, const data::EncodedTexts& texts,
              const data::CollateOptions& collate)
      : config_(config),
        model_(model),
        texts_(texts),
        collate_(collate),
        precision_(trainer::make_precision(config)),
        scaler_(amp::unscaled()),  // an overflow would skip the update that is to be looked at
        optimizer_(trainer::make_optimizer(config, model.parameters())) {}

  MemoryPlan run(const RunBatches& batches, const std::vector<data::Batch>& evaluated) {
    MemoryPlan most = step(batches.first_step);
    most.first_step = true;
    for (const StepBatches& later : batches.later_steps) {
      MemoryPlan plan = step(later);
      if (plan.training_peak() >= most.training_peak()) most = std::move(plan);
    }
    for (const data::Batch& batch : evaluated) most.evaluation = std::max(most.evaluation, evaluate(batch));
    for (const NamedTensor& state : optimizer_->state()) most.optimizer += bytes_of(state.tensor);
    return most;
  }

 private:
  /// A second batch adds to gradients that are there already: more of them change nothing.
  MemoryPlan step(const StepBatches& batches) {
    plan_ = {};
    const int64_t rows = std::ssize(batches.first) + std::ssize(batches.later);
    micro_step(batches.first, rows, 0);
    if (!batches.later.empty()) micro_step(batches.later, rows, 1);
    update();
    return plan_;
  }

  void micro_step(const BatchRows& rows, int64_t all_rows, uint32_t number) {
    const data::Batch batch = data::collate(texts_, rows, collate_);
    const RngGuard rng({.stream = rng_stream::dropout, .step = 1, .micro_step = number});
    cpu_allocator().reset_peak();
    const Tensor loss = [&] {
      const amp::Autocast autocast(precision_.rule);
      return model_.loss(batch, static_cast<double>(all_rows), true);
    }();
    const int64_t forward = take_peak();
    std::map<std::string, int64_t> saved = saved_by_op(loss, model_.parameters());
    autograd::backward(scaler_.scale(loss));
    const int64_t backward = take_peak();
    if (std::max(forward, backward) >= std::max(plan_.forward, plan_.backward)) {
      plan_.rows = batch.rows;
      plan_.longest = batch.longest;
      plan_.tokens = batch.tokens;
      plan_.saved = std::move(saved);
    }
    plan_.forward = std::max(plan_.forward, forward);
    plan_.backward = std::max(plan_.backward, backward);
  }

  void update() {
    for (const NamedTensor& p : model_.parameters()) {
      plan_.parameters += p.tensor.numel();
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

  int64_t evaluate(const data::Batch& batch) {
    const NoGradGuard no_grad;
    const amp::Autocast autocast(precision_.rule);
    cpu_allocator().reset_peak();
    (void)model_.logits(batch, false);
    return take_peak();
  }

  static int64_t take_peak() {
    const int64_t peak = cpu_allocator().stats().peak_bytes;
    cpu_allocator().reset_peak();
    return peak;
  }

  const config::Config& config_;
  const models::BertClassifier& model_;
  const data::EncodedTexts& texts_;
  const data::CollateOptions& collate_;
  trainer::Precision precision_;
  amp::GradScaler scaler_;
  std::unique_ptr<optim::Optimizer> optimizer_;
  MemoryPlan plan_;
};

}  // namespace

int64_t MemoryPlan::all_saved() const {
  int64_t sum = 0;
  for (const auto& [op, bytes] : saved) sum += bytes;
  return sum;
}

int64_t MemoryPlan::training_peak() const { return std::max({forward, backward, update}); }

int64_t MemoryPlan::peak() const { return std::max(training_peak(), evaluation); }

std::string MemoryPlan::text() const {
  const auto row = [](std::string_view indent, std::string_view name, int64_t bytes, std::string_view about = "") {
    return fmt::format("{}{:<{}}{:>10.2f} MiB{}{}\n", indent, name, 26 - indent.size(),
                       static_cast<double>(bytes) / 0x1p20, about.empty() ? "" : "  ", about);
  };
  std::string out = message("a training step of the longest batch: ", rows, " texts of at most ", longest, " tokens, ",
                            tokens, " in all\n");
  if (first_step) out += "  in the run's first step, which finds no optimizer states: no later one needs as much\n";
  out += row("  ", "weights", weights) + row("  ", "16-bit copies", copies);
  out += row("  ", "gradients", gradients) + row("  ", "optimizer", optimizer);
  out += row("  ", "saved for backward", all_saved());
  std::vector<std::pair<std::string, int64_t>> ops(saved.begin(), saved.end());
  std::sort(ops.begin(), ops.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
  for (const auto& [op, bytes] : ops) out += row("    ", op, bytes);
  out += row("  ", "peak of forward", forward) + row("  ", "peak of backward", backward);
  out += row("  ", "peak of the update", update) + row("  ", "peak of the evaluation", evaluation);
  return out + row("", "peak", peak(), "beside the program itself, its data and what the libraries keep");
}

trainer::Json MemoryPlan::json() const {
  trainer::Json by_op = trainer::Json::object();
  for (const auto& [op, bytes] : saved) by_op.set(op, bytes);
  return trainer::Json::object()
      .set("rows", rows)
      .set("longest", longest)
      .set("tokens", tokens)
      .set("first_step", first_step)
      .set("parameters", parameters)
      .set("weights", weights)
      .set("copies", copies)
      .set("gradients", gradients)
      .set("optimizer", optimizer)
      .set("saved", std::move(by_op))
      .set("peak_forward", forward)
      .set("peak_backward", backward)
      .set("peak_update", update)
      .set("peak_evaluation", evaluation)
      .set("peak_bytes", peak());
}

MemoryPlan measure_memory(config::Config config, trainer::Progress& progress) {
  kernels::set_thread_count(static_cast<int>(config.threads));
  trainer::take_from_pretrained(config);
  const data::Tokenizer tokenizer = trainer::make_tokenizer(config.tokenizer);
  const trainer::Task task = trainer::read_task(config, tokenizer, progress);
  const auto model = trainer::make_model(config, tokenizer.vocab().size(), task.class_names, progress);
  trainer::rehearse(config, *model, progress);
  const data::CollateOptions collate = trainer::collate_options(config, tokenizer, model->label_dtype());
  const RunBatches batches = largest_batches(config, task.train, collate);
  data::CollateOptions longest = collate;
  longest.padding = data::Padding::longest;  // as trainer::evaluate pads
  std::vector<data::Batch> evaluated;
  for (const data::EncodedTexts* split : {&task.val, &task.test}) {
    if (split->rows() == 0) continue;
    const data::BatchPlan sorted = data::plan_sorted(split->lengths(), trainer::EvaluateOptions().batch_size);
    evaluated.push_back(data::collate(*split, largest_batch(sorted, *split, longest), longest));
  }
  return MemoryProbe(config, *model, task.train, collate).run(batches, evaluated);
}

}  // namespace mixtape::inspect
