#include "tools/teach/break_train.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "amp/autocast.h"
#include "amp/parameters.h"
#include "core/factory.h"
#include "ops/ops.h"
#include "optim/adamw.h"
#include "optim/clip.h"
#include "optim/sgd.h"
#include "tools/trainer/metrics.h"

namespace mixtape::teach {
namespace {

constexpr int64_t rows_of_a_step = 16, test_rows = 256;
constexpr uint32_t test_step = std::numeric_limits<uint32_t>::max();  // drawn as no step is

/// How many of the 16-bit elements that a sweep hands on are 0.
class ZeroCount {
 public:
  ZeroCount() : observer_{.on_backward = &ZeroCount::count, .self = this} {}
  ZeroCount(const ZeroCount&) = delete;  // the observer points here
  ZeroCount& operator=(const ZeroCount&) = delete;
  Observer& observer() { return observer_; }
  double share() const { return all_ == 0 ? 0 : static_cast<double>(zero_) / static_cast<double>(all_); }

 private:
  static void count(void* self, const BackwardEvent& event) {
    auto& here = *static_cast<ZeroCount*>(self);
    for (const Tensor& gradient : event.outgoing) {
      if (!gradient || !is_low(gradient.dtype())) continue;
      const std::vector<double> values = to_vector(gradient);
      here.all_ += std::ssize(values);
      here.zero_ += std::count(values.begin(), values.end(), 0.0);
    }
  }

  Observer observer_;
  int64_t all_ = 0, zero_ = 0;
};

std::unique_ptr<optim::Optimizer> make_optimizer(const Recipe& recipe, const NamedTensors& parameters) {
  if (recipe.adam) return std::make_unique<optim::AdamW>(parameters, optim::AdamWOptions{.lr = recipe.lr});
  return std::make_unique<optim::SGD>(parameters, optim::SGDOptions{.lr = recipe.lr, .momentum = 0.9});
}

/// Which weights have had another value than their first.
class MoveWatch {
 public:
  explicit MoveWatch(const NamedTensors& parameters) : parameters_(parameters) {
    for (const NamedTensor& p : parameters_) {
      first_.push_back(to_vector(p.tensor));
      moved_.emplace_back(first_.back().size(), false);
    }
  }
  void look() {
    for (size_t i = 0; i < parameters_.size(); ++i) {
      const std::vector<double> now = to_vector(parameters_[i].tensor);
      for (size_t k = 0; k < now.size(); ++k) moved_[i][k] = moved_[i][k] || now[k] != first_[i][k];
    }
  }
  double never_moved() const {
    int64_t all = 0, still = 0;
    for (const std::vector<bool>& moved : moved_) {
      all += std::ssize(moved);
      still += std::count(moved.begin(), moved.end(), false);
    }
    return static_cast<double>(still) / static_cast<double>(all);
  }
  /// Of the γ of normalisations; 0 where there are none.
  double norms_at_one() const {
    int64_t all = 0, ones = 0;
    for (const NamedTensor& p : parameters_) {
      if (!p.name.ends_with("LayerNorm.weight")) continue;
      const std::vector<double> now = to_vector(p.tensor);
      all += std::ssize(now);
      ones += std::count(now.begin(), now.end(), 1.0);
    }
    return all == 0 ? 0 : static_cast<double>(ones) / static_cast<double>(all);
  }

 private:
  NamedTensors parameters_;
  std::vector<std::vector<double>> first_;
  std::vector<std::vector<bool>> moved_;
};

class Training {
 public:
  Training(const Recipe& recipe, uint64_t seed)
      : recipe_(recipe), seed_(seed), model_(recipe.model(seed)), scaler_(recipe.scaler) {
    if (recipe.dtype != DType::f32) {
      amp::store_parameters(model_->parameters(), recipe.policy, recipe.dtype);
      rule_ = amp::make_rule(recipe.policy, recipe.dtype);
    }
    optimizer_ = make_optimizer(recipe, model_->parameters());
    out_.name = recipe.name;
  }

  BreakRun run() {
    MoveWatch watch(model_->parameters());
    for (int64_t step = 0; step < recipe_.steps; ++step) {
      train_step(static_cast<uint32_t>(step));
      watch.look();
    }
    const int64_t applied = recipe_.steps - out_.skipped;
    out_.norm = applied == 0 ? 0 : norms_ / static_cast<double>(applied);
    out_.never_moved = watch.never_moved();
    out_.norms_at_one = watch.norms_at_one();
    out_.zero_gradients = zeros_.share();
    out_.end_scale = scaler_.scale();
    evaluate();
    return std::move(out_);
  }

 private:
  /// What the loss takes for logits.
  Tensor given_to_loss(const Tensor& ids) const {
    const amp::Autocast guard(rule_);
    const Tensor logits = model_->logits(ids);
    return recipe_.sigmoid_twice ? ops::sigmoid(logits) : logits;
  }

  void train_step(uint32_t step) {
    const Sentences batch = draw_sentences(rows_of_a_step, seed_, step);
    const std::vector<double> labels(batch.labels.begin(), batch.labels.end());
    const double items = static_cast<double>(rows_of_a_step) * recipe_.window;
    const Tensor given = given_to_loss(batch.ids), loss = [&] {
      const amp::Autocast guard(rule_);
      return ops::bce_with_logits(given, from(labels, {rows_of_a_step}), {.items = items});
    }();
    out_.loss.push_back(loss.item() * recipe_.window);
    {
      const ObserverGuard guard(zeros_.observer());
      autograd::backward(scaler_.scale(loss));
    }
    if (recipe_.clips_scaled)
      clip_scaled(*optimizer_, recipe_.max_norm);
    else
      (void)optim::clip_grad_norm(*optimizer_, recipe_.max_norm);
    const double norm = optimizer_->survey().norm;
    const optim::Outcome outcome = scaler_.step(*optimizer_);
    out_.skipped += outcome.skipped();
    if (outcome.applied()) norms_ += norm;
    scaler_.update();
  }

  void evaluate() {
    const NoGradGuard no_grad;
    const Sentences test = draw_sentences(test_rows, seed_, test_step);
    const std::vector<double> given = to_vector(given_to_loss(test.ids));
    trainer::Confusion confusion(2);
    out_.lowest = 1;
    for (size_t i = 0; i < given.size(); ++i) {
      const double probability = 1 / (1 + std::exp(-given[i]));
      const bool answered = !std::isnan(probability);
      if (answered) {
        out_.lowest = std::min(out_.lowest, probability);
        out_.highest = std::max(out_.highest, probability);
      }
      out_.unanswered += answered ? 0 : 1.0 / test_rows;
      confusion.add(test.labels[i], answered ? probability > 0.5 : 1 - test.labels[i]);
    }
    out_.macro_f1 = trainer::Metrics(confusion, 0).macro_f1;
  }

  const Recipe& recipe_;
  uint64_t seed_;
  std::unique_ptr<Learner> model_;
  std::shared_ptr<const CastRule> rule_;  // null: no autocast
  std::unique_ptr<optim::Optimizer> optimizer_;
  amp::GradScaler scaler_;
  ZeroCount zeros_;
  double norms_ = 0;
  BreakRun out_;
};

}  // namespace

BreakRun train(const Recipe& recipe, uint64_t seed) { return Training(recipe, seed).run(); }

// A gradient here carries its scale, and clipping knows it: the pair has to be taken apart to get this wrong.
void clip_scaled(optim::Optimizer& optimizer, double max_norm) {
  std::vector<double> unscale;
  for (const NamedTensor& p : optimizer.parameters())
    unscale.push_back(std::exchange(p.tensor.leaf().gradient.multiplier, 1.0));
  (void)optim::clip_grad_norm(optimizer, max_norm);
  for (size_t i = 0; i < unscale.size(); ++i) optimizer.parameters()[i].tensor.leaf().gradient.multiplier *= unscale[i];
}

double norm_after_clip_scaled(double scaled_norm, double scale, double max_norm) {
  const Tensor weight = zeros({1}).set_requires_grad();
  optim::SGD optimizer(NamedTensors{{"weight", weight}});
  weight.leaf().gradient = {full({1}, scaled_norm), 1 / scale};
  clip_scaled(optimizer, max_norm);
  return optimizer.survey().norm;
}

}  // namespace mixtape::teach
